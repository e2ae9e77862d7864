//! Parts of the contract's types in JSON: shared texts, and numbers that JSON does not have.

/// A shared text.
pub(super) mod shared {
    use std::sync::Arc;

    use serde::{Deserialize, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(text: &Arc<str>, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(text)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Arc<str>, D::Error> {
        String::deserialize(from).map(Arc::from)
    }
}

/// A list of shared texts.
pub(super) mod shared_list {
    use std::sync::Arc;

    use serde::{Deserialize, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(list: &[Arc<str>], to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(list.iter().map(|text| &**text))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Vec<Arc<str>>, D::Error> {
        Ok(Vec::<String>::deserialize(from)?.into_iter().map(Arc::from).collect())
    }
}

/// A number, as a text if it is infinite or not a number. Each NaN is the same one for a
/// module.
pub(super) mod number {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Number {
        Finite(f64),
        Text(String),
    }

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    pub(crate) fn serialize<S: Serializer>(number: &f64, to: S) -> Result<S::Ok, S::Error> {
        if number.is_finite() { to.serialize_f64(*number) } else { to.collect_str(number) }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
        match Number::deserialize(from)? {
            Number::Finite(number) => Ok(number),
            Number::Text(text) => text.parse().map_err(D::Error::custom),
        }
    }
}
