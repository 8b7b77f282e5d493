//! Histograms of times that every call adds to. Threads add to stripes of their own, so that calls do not wait for each
//! other's cache lines; the sums are made when somebody looks.

use std::fmt::Write as _;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// The most bounds that fit.
const MOST_BOUNDS: usize = 18;
const MOST_STRIPES: usize = 16;
const NS_PER_SECOND: f64 = 1e9;

/// The upper bounds of the buckets, ascending: in nanoseconds, and in seconds as Prometheus writes it.
pub(super) type Bounds = &'static [(u64, &'static str)];

/// How often something took how long.
pub(super) struct Histogram {
    bounds: Bounds,
    stripes: Box<[Stripe]>,
}

/// What some of the threads added. Its own cache lines, and the pair that processors fetch with them.
#[derive(Default)]
#[repr(align(128))]
struct Stripe {
    /// One for each bound, and the last for what is above all.
    buckets: [AtomicU64; MOST_BOUNDS + 1],
    sum_ns: AtomicU64,
}

thread_local! {
    static THREAD: usize = {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        NEXT.fetch_add(1, Relaxed)
    };
}

impl Histogram {
    pub(super) fn new(bounds: Bounds) -> Self {
        debug_assert!(bounds.len() <= MOST_BOUNDS && bounds.is_sorted());
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let stripes = threads.next_power_of_two().min(MOST_STRIPES);
        Self { bounds, stripes: (0..stripes).map(|_| Stripe::default()).collect() }
    }

    pub(super) fn record(&self, time: Duration) {
        let ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let stripe = &self.stripes[THREAD.with(|thread| *thread) & (self.stripes.len() - 1)];
        let bucket = self.bounds.partition_point(|(bound, _)| *bound < ns);
        stripe.buckets[bucket].fetch_add(1, Relaxed);
        stripe.sum_ns.fetch_add(ns, Relaxed);
    }

    /// Writes the lines of a metric with these labels (`tool="export"`, or nothing). `# HELP` and `# TYPE` are in
    /// [`write_head`].
    pub(super) fn write(&self, text: &mut String, name: &str, labels: &str) {
        let sum = |part: &dyn Fn(&Stripe) -> &AtomicU64| -> u64 {
            self.stripes.iter().map(|stripe| part(stripe).load(Relaxed)).fold(0, u64::wrapping_add)
        };
        let comma = if labels.is_empty() { "" } else { "," };
        let mut count = 0;
        let bounds = self.bounds.iter().map(|(_, seconds)| *seconds).chain(["+Inf"]);
        for (bucket, bound) in bounds.enumerate() {
            count += sum(&|stripe| &stripe.buckets[bucket]);
            let _ = writeln!(text, "{name}_bucket{{{labels}{comma}le=\"{bound}\"}} {count}");
        }
        let labels = if labels.is_empty() { String::new() } else { format!("{{{labels}}}") };
        let seconds = sum(&|stripe| &stripe.sum_ns) as f64 / NS_PER_SECOND;
        let _ = writeln!(text, "{name}_sum{labels} {seconds}\n{name}_count{labels} {count}");
    }
}

/// What stands before the lines of a histogram.
pub(super) fn write_head(text: &mut String, name: &str, help: &str) {
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} histogram");
}

/// A label as the text format writes it.
pub(super) fn label(name: &str, value: &str) -> String {
    format!("{name}=\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = &[(1_000, "0.000001"), (1_000_000, "0.001")];

    #[test]
    fn times_are_counted_up_to_their_bounds_whichever_thread_took_them() {
        let histogram = Histogram::new(BOUNDS);
        let times = [1, 1_000, 1_001, 1_000_000, 2_000_000];
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| times.iter().for_each(|ns| histogram.record(Duration::from_nanos(*ns))));
            }
        });
        let mut text = String::new();
        histogram.write(&mut text, "a_seconds", "");
        let expected = "a_seconds_bucket{le=\"0.000001\"} 6\na_seconds_bucket{le=\"0.001\"} 12\n\
                        a_seconds_bucket{le=\"+Inf\"} 15\na_seconds_sum 0.009006006\na_seconds_count 15\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn labels_are_quoted() {
        let mut text = String::new();
        Histogram::new(BOUNDS).write(&mut text, "a_seconds", &label("tool", "a\"b\\c\nd"));
        assert!(text.starts_with("a_seconds_bucket{tool=\"a\\\"b\\\\c\\nd\",le=\"0.000001\"} 0\n"), "{text}");
        assert!(text.ends_with("a_seconds_count{tool=\"a\\\"b\\\\c\\nd\"} 0\n"), "{text}");
    }
}
