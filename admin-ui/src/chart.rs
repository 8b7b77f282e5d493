//! Charts over time, drawn on the server as SVG: no script is needed to see them.

use sluicegate_control::{Grain, UsagePoint};

use crate::markup::{self, Markup};
use crate::page::Page;

const WIDTH: i64 = 760;
const HEIGHT: i64 = 190;
const LEFT: i64 = 46;
const BOTTOM: i64 = 22;
const TOP: i64 = 8;

/// A stacked bar for each bucket: calls that were let in, failed, and refused by each scope.
pub(crate) struct Chart {
    svg: Markup,
    parts: Vec<(&'static str, &'static str)>,
    empty: bool,
}

/// The parts of a bar from bottom to top: class, text, number.
fn parts(point: &UsagePoint) -> [(&'static str, &'static str, i64); 6] {
    let counts = &point.counts;
    [
        ("ok", "usage.ok", counts.ok),
        ("err", "usage.errors", counts.errors),
        ("tool", "usage.by_tool", counts.by_tool),
        ("agent", "usage.by_agent", counts.by_agent),
        ("tenant", "usage.by_tenant", counts.by_tenant),
        ("server", "usage.by_server", counts.by_server),
    ]
}

impl Chart {
    pub(crate) fn of_calls(p: &Page, points: &[UsagePoint], grain: Grain) -> Self {
        let total = |point: &UsagePoint| parts(point).iter().map(|(_, _, number)| number).sum::<i64>();
        let most = points.iter().map(total).max().unwrap_or_default();
        let top = round_up(most);
        let mut svg = format!(
            "<svg class=\"chart\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">",
            markup::escape(p.t("usage.chart"))
        );
        let plot = HEIGHT - BOTTOM - TOP;
        for line in 0..=2 {
            let y = TOP + plot * (2 - line) / 2;
            let value = markup::thousands(top * line / 2);
            svg.push_str(&format!(
                "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{WIDTH}\" y1=\"{y}\" y2=\"{y}\"/>\
                 <text x=\"{}\" y=\"{}\" text-anchor=\"end\">{value}</text>",
                LEFT - 7,
                y + 4
            ));
        }
        let count = i64::try_from(points.len()).unwrap_or(1).max(1);
        let place = |at: i64| LEFT * 10 + (WIDTH - LEFT) * 10 * at / count;
        let gap = if count > 120 { 0 } else { ((WIDTH - LEFT) * 10 / count / 8).clamp(10, 80) };
        for (at, point) in (0..).zip(points) {
            let (from, to) = (place(at), place(at + 1));
            let mut title = moment(point.at, grain);
            let mut bars = String::new();
            let mut below = 0;
            for (class, text, number) in parts(point) {
                if number == 0 {
                    continue;
                }
                title.push_str(&format!("\n{}: {}", p.t(text), markup::thousands(number)));
                let height = |value: i64| value * plot * 10 / top.max(1);
                let (low, high) = (height(below), height(below + number));
                below += number;
                bars.push_str(&format!(
                    "<rect class=\"{class}\" x=\"{}\" width=\"{}\" y=\"{}\" height=\"{}\"/>",
                    tenth(from),
                    tenth((to - from - gap).max(8)),
                    tenth((TOP + plot) * 10 - high),
                    tenth((high - low).max(8)),
                ));
            }
            if bars.is_empty() {
                continue;
            }
            svg.push_str(&format!(
                "<g class=\"bar\"><title>{}</title><rect class=\"hit\" x=\"{}\" width=\"{}\" y=\"{TOP}\" height=\"{plot}\"/>{bars}</g>",
                markup::escape(&title),
                tenth(from),
                tenth(to - from),
            ));
        }
        for mark in 0..=3 {
            let at = (count - 1) * mark / 3;
            let Some(point) = points.get(usize::try_from(at).unwrap_or_default()) else { continue };
            let anchor = ["start", "middle", "middle", "end"][usize::try_from(mark).unwrap_or_default()];
            let x = if mark == 3 { WIDTH * 10 } else { place(at) };
            svg.push_str(&format!(
                "<text x=\"{}\" y=\"{}\" text-anchor=\"{anchor}\">{}</text>",
                tenth(x),
                HEIGHT - 5,
                label(point.at, grain)
            ));
        }
        svg.push_str("</svg>");
        let seen = points.iter().fold([0; 6], |mut sums, point| {
            for (sum, (_, _, number)) in sums.iter_mut().zip(parts(point)) {
                *sum += number;
            }
            sums
        });
        let named = points.first().map(parts).into_iter().flatten().zip(seen);
        let parts = named.filter(|(_, sum)| *sum > 0).map(|((class, text, _), _)| (class, p.t(text)));
        Self { svg: Markup::trusted(svg), parts: parts.collect(), empty: most == 0 }
    }
}

/// The drawing and its legend, for templates.
impl Chart {
    pub(crate) fn svg(&self) -> &Markup {
        &self.svg
    }

    pub(crate) fn parts(&self) -> &[(&'static str, &'static str)] {
        &self.parts
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.empty
    }
}

fn tenth(tenths: i64) -> String {
    if tenths % 10 == 0 { (tenths / 10).to_string() } else { format!("{}.{}", tenths / 10, tenths % 10) }
}

/// The next number that ends an axis well: one digit and zeros, and even.
fn round_up(most: i64) -> i64 {
    let mut unit = 1;
    loop {
        for step in [2, 3, 4, 5, 6, 8, 10] {
            let end = unit * step;
            if most <= end && end % 2 == 0 {
                return end;
            }
        }
        unit *= 10;
    }
}

fn moment(at: i64, grain: Grain) -> String {
    match grain {
        Grain::Day => markup::utc(at)[..10].to_owned(),
        _ => markup::utc(at),
    }
}

fn label(at: i64, grain: Grain) -> String {
    let text = markup::utc(at);
    match grain {
        Grain::Minute => text[11..16].to_owned(),
        Grain::Hour => text[5..16].to_owned(),
        Grain::Day => text[..10].to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_ends_at_a_round_number_above_everything() {
        for (most, end) in [(0, 2), (1, 2), (3, 4), (7, 8), (11, 20), (25, 30), (399, 400), (401, 500), (601, 800)] {
            assert_eq!(round_up(most), end, "{most}");
        }
    }
}
