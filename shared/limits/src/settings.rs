//! Reading the environment once, at start: everything missing or malformed is told together, by name.

/// A reader over the environment, which comes in as a lookup so that tests never touch the process's own.
///
/// ```
/// use limits::settings::Settings;
/// let environment = |name: &str| (name == "SIZE").then(|| "big".to_owned());
/// let mut settings = Settings::new(&environment);
/// let size = settings.or("SIZE", 3, |text| text.parse::<u8>().map_err(|_| "must be 0 to 255".to_owned()));
/// let home = settings.required("HOME_URL", |text| Ok(text.to_owned()));
/// assert!(size.is_none() && home.is_none());
/// assert_eq!(settings.finish().unwrap_err(), "SIZE must be 0 to 255; HOME_URL is missing");
/// ```
pub struct Settings<'a> {
    lookup: &'a dyn Fn(&str) -> Option<String>,
    faults: Vec<String>,
}

impl<'a> Settings<'a> {
    /// A reader over `lookup`, which gives a variable's value or `None`.
    pub fn new(lookup: &'a dyn Fn(&str) -> Option<String>) -> Self {
        Self {
            lookup,
            faults: Vec::new(),
        }
    }

    fn parse<T>(
        &mut self,
        name: &str,
        text: &str,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        match parse(text) {
            Ok(value) => Some(value),
            Err(detail) => {
                self.fault(format!("{name} {detail}"));
                None
            }
        }
    }

    /// A variable that must be there. `parse` says of a bad value what would be right, without quoting it: values may be secret.
    pub fn required<T>(
        &mut self,
        name: &str,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        match (self.lookup)(name).filter(|text| !text.is_empty()) {
            Some(text) => self.parse(name, &text, parse),
            None => {
                self.faults.push(format!("{name} is missing"));
                None
            }
        }
    }

    /// A variable that has a default; set and empty counts as unset.
    pub fn or<T>(
        &mut self,
        name: &str,
        default: T,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        match (self.lookup)(name).filter(|text| !text.is_empty()) {
            Some(text) => self.parse(name, &text, parse),
            None => Some(default),
        }
    }

    /// An integer within bounds, both included, with a default.
    pub fn integer(&mut self, name: &str, default: u64, least: u64, most: u64) -> Option<u64> {
        self.or(name, default, |text| {
            text.parse()
                .ok()
                .filter(|n| (least..=most).contains(n))
                .ok_or_else(|| format!("must be an integer from {least} to {most}"))
        })
    }

    /// `name`, which is `true` or `false`; `default` where it is not set.
    pub fn flag(&mut self, name: &str, default: bool) -> Option<bool> {
        self.or(name, default, |text| {
            text.parse().map_err(|_| "must be true or false".to_owned())
        })
    }

    /// Notes a fault that no single reader finds; the same one is told once.
    pub fn fault(&mut self, fault: impl Into<String>) {
        let fault = fault.into();
        if !self.faults.contains(&fault) {
            self.faults.push(fault);
        }
    }

    /// # Errors
    /// One sentence that names every variable at fault.
    pub fn finish(self) -> Result<(), String> {
        if self.faults.is_empty() {
            Ok(())
        } else {
            Err(self.faults.join("; "))
        }
    }
}
