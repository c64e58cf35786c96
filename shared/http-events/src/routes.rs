//! Routes that cannot be without a description.

use std::fmt;

use axum::Router;
use axum::handler::Handler;
use axum::http::StatusCode;
use axum::routing::{MethodRouter, delete, get, post, put};

use crate::openapi::{Described, Method, Operation};
use crate::problem::Problem;

/// A table of routes: where, by what method, what handles it, and what is to be said of it. The descriptions are made when
/// somebody asks for them; a cold start does not wait for it.
pub struct Routes<S = ()> {
    router: Router<S>,
    described: Vec<Described>,
}

impl<S> fmt::Debug for Routes<S> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_list().entries(&self.described).finish()
    }
}

impl<S: Clone + Send + Sync + 'static> Default for Routes<S> {
    fn default() -> Self {
        Self::new()
    }
}

impl<S: Clone + Send + Sync + 'static> Routes<S> {
    /// A table without a route.
    pub fn new() -> Self {
        Self {
            router: Router::new(),
            described: Vec::new(),
        }
    }

    /// The same, with a route for `GET` (and `HEAD`).
    #[must_use]
    pub fn get<H: Handler<T, S>, T: 'static>(
        self,
        path: &'static str,
        handler: H,
        describe: fn() -> Operation,
    ) -> Self {
        self.route(path, Method::Get, get(handler), describe)
    }

    /// The same, with a route for `POST`.
    #[must_use]
    pub fn post<H: Handler<T, S>, T: 'static>(
        self,
        path: &'static str,
        handler: H,
        describe: fn() -> Operation,
    ) -> Self {
        self.route(path, Method::Post, post(handler), describe)
    }

    /// The same, with a route for `PUT`.
    #[must_use]
    pub fn put<H: Handler<T, S>, T: 'static>(
        self,
        path: &'static str,
        handler: H,
        describe: fn() -> Operation,
    ) -> Self {
        self.route(path, Method::Put, put(handler), describe)
    }

    /// The same, with a route for `DELETE`.
    #[must_use]
    pub fn delete<H: Handler<T, S>, T: 'static>(
        self,
        path: &'static str,
        handler: H,
        describe: fn() -> Operation,
    ) -> Self {
        self.route(path, Method::Delete, delete(handler), describe)
    }

    fn route(
        mut self,
        path: &'static str,
        method: Method,
        handler: MethodRouter<S>,
        describe: fn() -> Operation,
    ) -> Self {
        self.router = self.router.route(path, handler);
        self.described.push(Described {
            path,
            method,
            describe,
        });
        self
    }

    /// The routes, to be described.
    pub fn described(self) -> Vec<Described> {
        self.described
    }

    /// The routes, to be served. It says no by a [`Problem`] where no route covers the path, or the route does not take the
    /// method.
    pub fn into_router(self) -> Router<S> {
        self.router
            .fallback(async |request: axum::extract::Request| {
                Problem::not_found(format!("there is nothing at {}", request.uri().path()))
            })
            .method_not_allowed_fallback(async |request: axum::extract::Request| {
                let detail = format!("this path does not take {}", request.method());
                Problem::new(StatusCode::METHOD_NOT_ALLOWED, detail)
            })
    }
}
