//! Parses Kubernetes quantities such as `10Gi` into floating-point numbers, which are exact enough
//! to compare and add sizes. The crates that parse them exactly are tied to one version of the API
//! types.

/// The suffixes of Kubernetes quantities and their factors, each a power of 1024 or 1000.
const SUFFIXES: [(&str, f64); 15] = [
    ("Ki", 1024.0),
    ("Mi", 1_048_576.0),
    ("Gi", 1_073_741_824.0),
    ("Ti", 1_099_511_627_776.0),
    ("Pi", 1_125_899_906_842_624.0),
    ("Ei", 1_152_921_504_606_846_976.0),
    ("n", 1e-9),
    ("u", 1e-6),
    ("m", 1e-3),
    ("k", 1e3),
    ("M", 1e6),
    ("G", 1e9),
    ("T", 1e12),
    ("P", 1e15),
    ("E", 1e18),
];

/// The quantity as a finite number; 0 if the text cannot be parsed.
pub(crate) fn of(text: &str) -> f64 {
    let suffix = SUFFIXES
        .iter()
        .find_map(|(suffix, factor)| Some((text.strip_suffix(suffix)?, factor)));
    let (number, factor) = suffix.unwrap_or((text, &1.0));
    let number = number.parse::<f64>().map(|number| number * factor);
    number.ok().filter(|all| all.is_finite()).unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::of;

    #[test]
    fn amounts_are_compared_whatever_their_suffix() {
        assert!(of("1Gi") > of("1G") && of("1G") > of("999M"));
        assert!(of("1e3") == of("1k") && of("500m") == 0.5);
        assert!(of("1024Mi") == of("1Gi") && of("7") == 7.0 && of("") == 0.0);
        assert!(of("inf") == 0.0 && of("NaN") == 0.0 && of("1e308E") == 0.0);
    }
}
