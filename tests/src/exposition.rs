//! The text format of Prometheus, read as strictly as `promtool check metrics` reads it.

use std::collections::{BTreeMap, BTreeSet};

/// What a server shows at `/metrics`.
#[derive(Debug, Default)]
pub struct Exposition {
    families: BTreeMap<String, Family>,
}

/// All samples of one metric.
#[derive(Debug, Default)]
struct Family {
    kind: String,
    has_help: bool,
    samples: Vec<Sample>,
}

/// One line with a value.
#[derive(Debug, Clone)]
pub struct Sample {
    /// The name of the line, which for histograms has an ending.
    pub name: String,
    /// The labels.
    pub labels: BTreeMap<String, String>,
    /// The value.
    pub value: f64,
}

impl Exposition {
    /// Reads a text.
    ///
    /// # Errors
    /// The first thing that Prometheus, or the linter of its names, does not accept.
    pub fn read(text: &str) -> Result<Self, String> {
        let mut exposition = Self::default();
        let mut current = String::new();
        if !text.ends_with('\n') {
            return Err("the last line has no end".to_owned());
        }
        for line in text.lines().filter(|line| !line.is_empty()) {
            if let Some(rest) = line.strip_prefix("# HELP ") {
                let (name, help) = rest.split_once(' ').ok_or_else(|| format!("no help text: {line}"))?;
                exposition.enter(name, &mut current)?;
                let family = exposition.families.entry(name.to_owned()).or_default();
                if std::mem::replace(&mut family.has_help, true) || help.trim().is_empty() {
                    return Err(format!("help twice, or none: {line}"));
                }
            } else if let Some(rest) = line.strip_prefix("# TYPE ") {
                let (name, kind) = rest.split_once(' ').ok_or_else(|| format!("no type: {line}"))?;
                exposition.enter(name, &mut current)?;
                let family = exposition.families.entry(name.to_owned()).or_default();
                if !family.kind.is_empty() || !family.samples.is_empty() {
                    return Err(format!("type twice, or after the first sample: {line}"));
                }
                kind.clone_into(&mut family.kind);
            } else {
                let sample = Sample::read(line).ok_or_else(|| format!("no sample: {line}"))?;
                let family = exposition.families.get_mut(&current).ok_or_else(|| format!("without a type: {line}"))?;
                if !family.holds(&current, &sample.name) {
                    return Err(format!("not of {current}, where it stands: {line}"));
                }
                family.samples.push(sample);
            }
        }
        exposition.families.iter().try_for_each(|(name, family)| family.check(name))?;
        Ok(exposition)
    }

    /// A family may be entered once: its lines stand together.
    fn enter(&self, name: &str, current: &mut String) -> Result<(), String> {
        if name == current {
            return Ok(());
        }
        name.clone_into(current);
        match self.families.contains_key(name) {
            true => Err(format!("the lines of {name} do not stand together")),
            false => Ok(()),
        }
    }

    /// The names of all metrics.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.families.keys().map(String::as_str)
    }

    /// All lines of a metric.
    #[must_use]
    pub fn samples(&self, name: &str) -> &[Sample] {
        self.families.get(name).map_or(&[], |family| &family.samples)
    }

    /// The sum over all lines of this very name that have these labels, among others.
    #[must_use]
    pub fn sum(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let family = ["", "_bucket", "_count", "_sum"].iter().find_map(|ending| {
            let family = name.strip_suffix(ending)?;
            self.families.contains_key(family).then(|| self.samples(family))
        });
        let samples = family.unwrap_or_default().iter().filter(|sample| sample.name == name);
        let matching = samples.filter(|sample| {
            labels.iter().all(|(label, value)| sample.labels.get(*label).is_some_and(|own| own == value))
        });
        matching.map(|sample| sample.value).sum()
    }

    /// How many lines there are.
    #[must_use]
    pub fn series(&self) -> usize {
        self.families.values().map(|family| family.samples.len()).sum()
    }
}

impl Family {
    fn holds(&self, name: &str, sample: &str) -> bool {
        match self.kind.as_str() {
            "counter" | "gauge" => sample == name,
            "histogram" => ["_bucket", "_sum", "_count"].iter().any(|end| sample.strip_suffix(end) == Some(name)),
            _ => false,
        }
    }

    fn check(&self, name: &str) -> Result<(), String> {
        let is_name = name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
        let is_total = name.ends_with("_total");
        if !is_name || !self.has_help || is_total != (self.kind == "counter") {
            return Err(format!("{name}, a {}: its name, its help or its ending", self.kind));
        }
        let mut seen = BTreeSet::new();
        for sample in &self.samples {
            if !seen.insert((&sample.name, &sample.labels)) {
                return Err(format!("twice: {sample:?}"));
            }
            if self.kind == "counter" && !(sample.value >= 0.0 && sample.value.fract() == 0.0) {
                return Err(format!("not a count: {sample:?}"));
            }
        }
        if self.kind == "histogram" { self.check_buckets(name) } else { Ok(()) }
    }

    fn check_buckets(&self, name: &str) -> Result<(), String> {
        let mut rows: BTreeMap<BTreeMap<String, String>, Vec<(f64, f64)>> = BTreeMap::new();
        for sample in self.samples.iter().filter(|sample| sample.name.ends_with("_bucket")) {
            let mut labels = sample.labels.clone();
            let bound = labels.remove("le").ok_or_else(|| format!("{name} without le"))?;
            let bound =
                if bound == "+Inf" { f64::INFINITY } else { bound.parse().map_err(|_| format!("le={bound}"))? };
            rows.entry(labels).or_default().push((bound, sample.value));
        }
        for (labels, buckets) in rows {
            let rises = buckets.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1);
            let count = self.samples.iter().find(|sample| sample.name.ends_with("_count") && sample.labels == labels);
            let has_sum = self.samples.iter().any(|sample| sample.name.ends_with("_sum") && sample.labels == labels);
            let last = buckets.last().filter(|(bound, _)| bound.is_infinite()).map(|(_, count)| *count);
            if !rises || !has_sum || last.is_none() || last != count.map(|count| count.value) {
                return Err(format!("the buckets of {name} {labels:?} do not fit: {buckets:?}"));
            }
        }
        Ok(())
    }
}

impl Sample {
    fn read(line: &str) -> Option<Self> {
        let (head, value) = line.rsplit_once(' ')?;
        let value = value.parse().ok()?;
        let Some((name, labels)) = head.split_once('{') else {
            return Some(Self { name: head.to_owned(), labels: BTreeMap::new(), value });
        };
        let mut rest = labels.strip_suffix('}')?;
        let mut labels = BTreeMap::new();
        while !rest.is_empty() {
            let (label, quoted) = rest.split_once("=\"")?;
            let (text, behind) = unquote(quoted)?;
            if labels.insert(label.to_owned(), text).is_some() {
                return None;
            }
            rest = match behind.strip_prefix(',') {
                Some(more) if !more.is_empty() => more,
                _ if behind.is_empty() => behind,
                _ => return None,
            };
        }
        Some(Self { name: name.to_owned(), labels, value })
    }
}

/// A text up to its closing quote, and what stands behind that.
fn unquote(quoted: &str) -> Option<(String, &str)> {
    let mut text = String::new();
    let mut characters = quoted.char_indices();
    loop {
        match characters.next()? {
            (at, '"') => return Some((text, &quoted[at + 1..])),
            (_, '\\') => match characters.next()?.1 {
                'n' => text.push('\n'),
                c @ ('"' | '\\') => text.push(c),
                _ => return None,
            },
            (_, c) => text.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "# HELP a_total Things.\n# TYPE a_total counter\na_total{x=\"1\\\"\\\\\\n\",y=\"\"} 3\na_total{x=\"2\"} 4\n\n\
         # HELP b_seconds Time.\n# TYPE b_seconds histogram\nb_seconds_bucket{le=\"0.1\"} 1\nb_seconds_bucket{le=\"+Inf\"} 2\n\
         b_seconds_sum 5.5\nb_seconds_count 2\n";

    #[test]
    fn what_prometheus_reads_is_read() {
        let exposition = Exposition::read(GOOD).expect("it is good");
        assert_eq!(exposition.sum("a_total", &[]), 7.0);
        assert_eq!(exposition.sum("a_total", &[("x", "1\"\\\n")]), 3.0);
        assert_eq!(exposition.sum("b_seconds_count", &[]), 2.0);
        assert_eq!(exposition.series(), 6);
    }

    #[test]
    fn what_prometheus_refuses_is_refused() {
        for (from, to) in [
            ("# TYPE a_total counter\n", ""),
            ("# HELP a_total Things.\n", ""),
            ("a_total{x=\"2\"} 4", "a_total{x=\"1\\\"\\\\\\n\",y=\"\"} 4"),
            ("a_total{x=\"2\"} 4", "a_total{x=\"2} 4"),
            ("a_total{x=\"2\"} 4", "c_total{x=\"2\"} 4"),
            ("a_total{x=\"2\"} 4", "a_total{x=\"2\"} four"),
            ("le=\"+Inf\"} 2", "le=\"+Inf\"} 3"),
            ("le=\"0.1\"} 1", "le=\"0.1\"} 4"),
            ("b_seconds_sum 5.5\n", ""),
        ] {
            let bad = GOOD.replace(from, to);
            assert_ne!(bad, GOOD, "{from}");
            assert!(Exposition::read(&bad).is_err(), "{bad}");
        }
    }
}
