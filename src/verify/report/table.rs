//! The report for people: one table, then what needs words.

use std::fmt::Write as _;

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{Cell, CellAlignment, ContentArrangement, Table};

use super::{PolicyReport, Report, Verdict};

const HEADER: [&str; 11] = [
    "policy",
    "cycles/s",
    "reads",
    "stale reads",
    "monotonic\nviolations",
    "off the\nsource",
    "read p50\nms",
    "read p99\nms",
    "write p50\nms",
    "degraded\n(stale)",
    "errors",
];

impl Report {
    /// The report as text.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut text = format!("{}\n", self.table());
        for policy in &self.policies {
            policy.write_details(&mut text);
        }
        let _ = writeln!(text, "\n{}", self.conclusion());
        text
    }

    fn table(&self) -> Table {
        let mut table = Table::new();
        table.load_preset(UTF8_FULL_CONDENSED);
        table.set_content_arrangement(ContentArrangement::Disabled);
        table.set_header(HEADER);
        for policy in &self.policies {
            table.add_row(policy.row());
        }
        for column in table.column_iter_mut().skip(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        table
    }

    fn conclusion(&self) -> String {
        let early = if self.interrupted {
            " (ended early)"
        } else {
            ""
        };
        let promising = self.policies.iter().filter(|policy| policy.promises);
        let (mut checked, mut broken) = (0, 0);
        for policy in promising {
            checked += policy.reads;
            broken += policy.violations.total;
        }
        match self.verdict {
            Verdict::Violated => {
                format!("FAILED{early}: Causeway broke {broken} promises in {checked} reads.")
            }
            Verdict::Inconclusive => {
                format!("INCONCLUSIVE{early}: a policy answered no read; see its errors.")
            }
            Verdict::Kept if checked > 0 => {
                format!("PASSED{early}: Causeway kept its promise in each of {checked} reads.")
            }
            Verdict::Kept => format!("DONE{early}: these policies promise nothing."),
        }
    }
}

impl PolicyReport {
    fn row(&self) -> Vec<Cell> {
        let share = self.off_source_pct.map(|share| format!("{share:.1} %"));
        let errors: u64 = self.errors.values().sum();
        [
            self.policy.clone(),
            format!("{:.0}", self.cycles_per_s),
            self.reads.to_string(),
            self.stale_reads.to_string(),
            self.monotonic_violations.to_string(),
            share.unwrap_or_else(|| "-".into()),
            milliseconds(self.read_ms.p50),
            milliseconds(self.read_ms.p99),
            milliseconds(self.write_ms.p50),
            format!("{} ({})", self.degraded_reads, self.degraded_stale_reads),
            errors.to_string(),
        ]
        .into_iter()
        .map(Cell::new)
        .collect()
    }

    /// Reasons, errors and violations below the table.
    fn write_details(&self, text: &mut String) {
        let _ = write!(text, "\n{}:", self.policy);
        let mut reasons: Vec<_> = self.reasons.iter().collect();
        reasons.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        for (reason, count) in reasons {
            let share = 100.0 * *count as f64 / self.reads.max(1) as f64;
            let _ = write!(text, " {reason} {share:.1} %");
        }
        text.push('\n');
        for (error, count) in &self.errors {
            let _ = writeln!(text, "  {count} × error: {error}");
        }
        if self.unpromised_reads > 0 {
            let reads = self.unpromised_reads;
            let _ = writeln!(
                text,
                "  {reads} reads after a write that could not be reported, or was reported as lost"
            );
        }
        for (kind, count) in &self.violations.by_kind {
            let _ = writeln!(text, "  {count} × broken: {kind}");
        }
        for example in &self.violations.examples {
            let _ = writeln!(text, "    {example}");
        }
    }
}

fn milliseconds(value: Option<f64>) -> String {
    value.map_or_else(|| "-".into(), |ms| format!("{ms:.2}"))
}
