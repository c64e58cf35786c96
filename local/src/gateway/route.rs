//! Which resource of an API a path belongs to.

/// A resource of an API, such as `/orders/{id}`, and the function that stands behind one of its methods.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// The resource as the template writes it.
    pub resource: String,
    /// In capitals; `ANY` is every method.
    pub method: String,
    /// The logical id of the function.
    pub function: String,
}

/// Where a call goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Match<'a> {
    /// The resource and its function.
    pub route: &'a Route,
    /// What the path put in the place of `{name}` and `{name+}`, as it was sent.
    pub parameters: Parameters,
}

/// The route of a call as API Gateway chooses it: a literal segment before `{name}`, that before `{name+}`, and a named
/// method before `ANY`. `path` is without the stage.
pub fn find<'a>(routes: &'a [Route], method: &str, path: &str) -> Option<Match<'a>> {
    routes
        .iter()
        .filter(|route| route.method == method || route.method == "ANY")
        .filter_map(|route| {
            let (rank, parameters) = fit(&route.resource, path)?;
            Some(((rank, route.method == "ANY"), Match { route, parameters }))
        })
        .min_by(|(one, _), (other, _)| one.cmp(other))
        .map(|(_, found)| found)
}

/// Whether any route has this resource at all, whatever its method.
pub(super) fn resource_at<'a>(routes: &'a [Route], path: &str) -> Option<&'a str> {
    routes
        .iter()
        .filter_map(|route| Some((fit(&route.resource, path)?.0, route.resource.as_str())))
        .min()
        .map(|(_, resource)| resource)
}

/// How well a segment of a resource fits; the lesser is preferred.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Segment {
    Literal,
    Parameter,
    Rest,
}

/// The parameters of a path, by name.
type Parameters = Vec<(String, String)>;

fn fit(resource: &str, path: &str) -> Option<(Vec<Segment>, Parameters)> {
    let mut rest = path.strip_prefix('/')?;
    let pattern = resource.strip_prefix('/')?;
    let (mut rank, mut parameters) = (Vec::new(), Vec::new());
    if pattern.is_empty() {
        return rest.is_empty().then_some((rank, parameters));
    }
    let mut segments = pattern.split('/').peekable();
    while let Some(segment) = segments.next() {
        if let Some(name) = segment
            .strip_prefix('{')
            .and_then(|name| name.strip_suffix("+}"))
        {
            if rest.is_empty() {
                return None;
            }
            rank.push(Segment::Rest);
            parameters.push((name.to_owned(), rest.to_owned()));
            return Some((rank, parameters));
        }
        let (here, after) = match rest.split_once('/') {
            Some((here, after)) => (here, Some(after)),
            None => (rest, None),
        };
        if let Some(name) = segment
            .strip_prefix('{')
            .and_then(|name| name.strip_suffix('}'))
        {
            if here.is_empty() {
                return None;
            }
            rank.push(Segment::Parameter);
            parameters.push((name.to_owned(), here.to_owned()));
        } else if segment == here {
            rank.push(Segment::Literal);
        } else {
            return None;
        }
        match (segments.peek(), after) {
            (None, None | Some("")) => return Some((rank, parameters)),
            (Some(_), Some(after)) => rest = after,
            _ => return None,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn routes(of: &[(&str, &str)]) -> Vec<Route> {
        of.iter()
            .map(|(method, resource)| Route {
                resource: (*resource).to_owned(),
                method: (*method).to_owned(),
                function: format!("{method} {resource}"),
            })
            .collect()
    }

    #[test]
    fn the_closest_resource_is_chosen() {
        let routes = routes(&[
            ("ANY", "/{proxy+}"),
            ("ANY", "/"),
            ("GET", "/orders/{id}"),
            ("ANY", "/orders/{id}"),
            ("GET", "/orders/open"),
            ("GET", "/orders/{id}/{rest+}"),
        ]);
        for (method, path, wanted) in [
            ("GET", "/", "ANY /"),
            ("GET", "/orders", "ANY /{proxy+}"),
            ("GET", "/orders/", "ANY /{proxy+}"),
            ("GET", "/orders/1", "GET /orders/{id}"),
            ("GET", "/orders/1/", "GET /orders/{id}"),
            ("PUT", "/orders/1", "ANY /orders/{id}"),
            ("GET", "/orders/open", "GET /orders/open"),
            ("PUT", "/orders/open", "ANY /orders/{id}"),
            ("GET", "/orders/1/items/2", "GET /orders/{id}/{rest+}"),
            ("PUT", "/orders/1/items/2", "ANY /{proxy+}"),
            ("GET", "//", "ANY /{proxy+}"),
        ] {
            let found = find(&routes, method, path).unwrap();
            assert_eq!(found.route.function, wanted, "{method} {path}");
        }
    }

    #[test]
    fn parameters_are_what_was_sent() {
        let routes = routes(&[("ANY", "/a/{id}/{rest+}")]);
        let found = find(&routes, "GET", "/a/x%2Fy/b/c%20d").unwrap();
        assert_eq!(
            found.parameters,
            [
                ("id".to_owned(), "x%2Fy".to_owned()),
                ("rest".to_owned(), "b/c%20d".to_owned())
            ]
        );
    }

    #[test]
    fn what_no_route_covers_is_nowhere() {
        let routes = routes(&[("GET", "/orders"), ("GET", "/a/{rest+}")]);
        for (method, path) in [
            ("PUT", "/orders"),
            ("GET", "/"),
            ("GET", "/orders/1"),
            ("GET", "/a"),
            ("GET", "/a/"),
            ("GET", "*"),
        ] {
            assert_eq!(find(&routes, method, path), None, "{method} {path}");
        }
        assert_eq!(resource_at(&routes, "/orders"), Some("/orders"));
        assert_eq!(resource_at(&routes, "/b"), None);
    }
}
