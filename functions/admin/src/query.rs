//! Reading a query string so that every fault is told at once.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::str::FromStr;

use axum::extract::{FromRequestParts, Query as Pairs};
use axum::http::request::Parts;
use http_events::Problem;
use limits::Fault;
use limits::registry::check_client_id;
use limits_postgres::page::{MOST, USUAL};
use serde::de::DeserializeOwned;

use crate::cursor;

/// A query string. What nobody asks for is a fault: a mistyped filter must not become none.
pub(crate) struct Query {
    told: BTreeMap<String, String>,
    faults: Vec<Fault>,
}

impl<S: Sync> FromRequestParts<S> for Query {
    /// Told later, so that what is wrong beside it can be told with it.
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Infallible> {
        let mut query = Self {
            told: BTreeMap::new(),
            faults: Vec::new(),
        };
        let Ok(Pairs(pairs)) = Pairs::<Vec<(String, String)>>::try_from_uri(&parts.uri) else {
            query.fault("", "the query must be like ?name=value&name=value");
            return Ok(query);
        };
        for (name, value) in pairs {
            if query.told.insert(name.clone(), value).is_some() {
                query.faults.push(Fault::new(name, "must be told once"));
            }
        }
        Ok(query)
    }
}

impl Query {
    pub(crate) fn fault(&mut self, field: &str, detail: impl Into<String>) {
        self.faults.push(Fault::new(field, detail));
    }

    /// Whether the name is there.
    pub(crate) fn told(&self, name: &str) -> bool {
        self.told.contains_key(name)
    }

    /// The value as it stands.
    pub(crate) fn text(&mut self, name: &str) -> Option<String> {
        self.told.remove(name)
    }

    /// The value as `read` has it.
    pub(crate) fn read<T>(
        &mut self,
        name: &str,
        read: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        let text = self.text(name)?;
        match read(&text) {
            Ok(value) => Some(value),
            Err(detail) => {
                self.fault(name, detail);
                None
            }
        }
    }

    /// One word of a closed list.
    pub(crate) fn choice<T: FromStr<Err = String>>(&mut self, name: &str) -> Option<T> {
        self.read(name, str::parse)
    }

    /// A client's id.
    pub(crate) fn client(&mut self, name: &str) -> Option<String> {
        self.read(name, |id| check_client_id(id).map(|()| id.to_owned()))
    }

    /// How many items a page shall have.
    pub(crate) fn limit(&mut self) -> usize {
        let limit = self.read("limit", |text| {
            text.parse()
                .ok()
                .filter(|limit| (1..=MOST).contains(limit))
                .ok_or_else(|| format!("must be an integer from 1 to {MOST}"))
        });
        limit.unwrap_or(USUAL)
    }

    /// Where the page begins.
    pub(crate) fn cursor<T: DeserializeOwned>(&mut self) -> Option<T> {
        self.read("cursor", |text| {
            cursor::read(text).ok_or_else(|| "must be the `next` of the same list".to_owned())
        })
    }

    /// # Errors
    /// Every fault that was noted, and one for each name that nobody asked for.
    pub(crate) fn finish(mut self) -> Result<(), Problem> {
        for name in self.told.into_keys() {
            self.faults
                .push(Fault::new(name, "is not a parameter of this resource"));
        }
        if self.faults.is_empty() {
            Ok(())
        } else {
            Err(Problem::faults(self.faults))
        }
    }
}
