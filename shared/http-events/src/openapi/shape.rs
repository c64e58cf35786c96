//! The shape of a value of JSON.

use serde_json::Value;
use utoipa::openapi::schema::{AdditionalProperties, AnyOfBuilder, ArrayItems, SchemaType};
use utoipa::openapi::{ArrayBuilder, KnownFormat, Object, Ref, RefOr, Schema, SchemaFormat, Type};

/// The shape of a value: a schema that is put together piece by piece.
#[derive(Clone)]
pub struct Shape {
    object: Object,
    items: Option<RefOr<Schema>>,
}

/// The shape of this name among those of the document.
pub fn reference(name: &str) -> RefOr<Schema> {
    RefOr::Ref(Ref::from_schema_name(name))
}

/// A value of any of these shapes.
pub fn either(shapes: impl IntoIterator<Item = RefOr<Schema>>) -> RefOr<Schema> {
    let any = shapes
        .into_iter()
        .fold(AnyOfBuilder::new(), AnyOfBuilder::item);
    RefOr::T(Schema::AnyOf(any.build()))
}

impl Shape {
    fn of(kind: Type) -> Self {
        Self {
            object: Object::with_type(kind),
            items: None,
        }
    }

    /// An object; fields are added.
    pub fn object() -> Self {
        Self::of(Type::Object)
    }

    /// Any text.
    pub fn text() -> Self {
        Self::of(Type::String)
    }

    /// Any integer from 0.
    pub fn count() -> Self {
        let mut shape = Self::of(Type::Integer);
        shape.object.minimum = Some(0_usize.into());
        shape
    }

    /// An integer within bounds, both included.
    pub fn integer(least: u64, most: u64) -> Self {
        let mut shape = Self::of(Type::Integer);
        let bound = |bound: u64| usize::try_from(bound).ok().map(Into::into);
        shape.object.minimum = bound(least);
        shape.object.maximum = bound(most);
        shape
    }

    /// True or false.
    pub fn boolean() -> Self {
        Self::of(Type::Boolean)
    }

    /// One of these words.
    pub fn words(words: &[impl ToString]) -> Self {
        let mut shape = Self::of(Type::String);
        let words = words.iter().map(|word| Value::from(word.to_string()));
        shape.object.enum_values = Some(words.collect());
        shape
    }

    /// A moment in RFC 3339.
    pub fn moment() -> Self {
        let mut shape = Self::of(Type::String);
        shape.object.format = Some(SchemaFormat::KnownFormat(KnownFormat::DateTime));
        shape
    }

    /// A UUID.
    pub fn uuid() -> Self {
        let mut shape = Self::of(Type::String);
        shape.object.format = Some(SchemaFormat::Custom("uuid".to_owned()));
        shape
    }

    /// Any value at all.
    pub fn anything() -> Self {
        let mut shape = Self::of(Type::Object);
        shape.object.schema_type = SchemaType::AnyValue;
        shape
    }

    /// A list.
    pub fn list(of: impl Into<RefOr<Schema>>) -> Self {
        let mut shape = Self::of(Type::Array);
        shape.items = Some(of.into());
        shape
    }

    /// The same, or null.
    #[must_use]
    pub fn or_null(mut self) -> Self {
        if let SchemaType::Type(kind) = self.object.schema_type {
            self.object.schema_type = SchemaType::from_iter([kind, Type::Null]);
        }
        if let Some(words) = &mut self.object.enum_values {
            words.push(Value::Null);
        }
        self
    }

    /// The same, with what it means.
    #[must_use]
    pub fn meaning(mut self, text: &str) -> Self {
        self.object.description = Some(text.to_owned());
        self
    }

    /// The same, with what it is where it is left out.
    #[must_use]
    pub fn by_default(mut self, value: impl Into<Value>) -> Self {
        self.object.default = Some(value.into());
        self
    }

    /// The same, with an example.
    #[must_use]
    pub fn example(mut self, value: impl Into<Value>) -> Self {
        self.object.examples.push(value.into());
        self
    }

    /// The same text, of so many characters.
    #[must_use]
    pub fn length(mut self, least: usize, most: usize) -> Self {
        self.object.min_length = Some(least).filter(|least| *least > 0);
        self.object.max_length = Some(most);
        self
    }

    /// The same text, which is not empty.
    #[must_use]
    pub fn not_empty(mut self) -> Self {
        self.object.min_length = Some(1);
        self
    }

    /// The same text, where it matches a regular expression.
    #[must_use]
    pub fn like(mut self, pattern: &str) -> Self {
        self.object.pattern = Some(pattern.to_owned());
        self
    }

    /// The same object, with a field that may be left out.
    #[must_use]
    pub fn field(mut self, name: &str, shape: impl Into<RefOr<Schema>>) -> Self {
        self.object.properties.insert(name.to_owned(), shape.into());
        self
    }

    /// The same object, with a field that is always there.
    #[must_use]
    pub fn required(self, name: &str, shape: impl Into<RefOr<Schema>>) -> Self {
        let mut shape = self.field(name, shape);
        shape.object.required.push(name.to_owned());
        shape
    }

    /// The same object, with all fields of another.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.object.properties.extend(other.object.properties);
        self.object.required.extend(other.object.required);
        self
    }

    /// The same object, with no other fields.
    #[must_use]
    pub fn closed(mut self) -> Self {
        self.object.additional_properties = Some(Box::new(AdditionalProperties::FreeForm(false)));
        self
    }

    /// What it means, where that was told, for whoever says it in another place; and the shape without it.
    pub(crate) fn told_apart(mut self) -> (Option<String>, Self) {
        (self.object.description.take(), self)
    }
}

impl From<Shape> for Schema {
    fn from(shape: Shape) -> Self {
        let Shape { object, items } = shape;
        match items {
            None => Schema::Object(object),
            Some(items) => Schema::Array(
                ArrayBuilder::new()
                    .schema_type(object.schema_type)
                    .description(object.description)
                    .items(ArrayItems::RefOrSchema(Box::new(items)))
                    .build(),
            ),
        }
    }
}

impl From<Shape> for RefOr<Schema> {
    fn from(shape: Shape) -> Self {
        RefOr::T(shape.into())
    }
}
