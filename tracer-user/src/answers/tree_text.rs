//! Where time went, as a tree of lines.

use tracer_analysis::{Blame, Node};

use super::words::{duration, part, share};

/// A part that is shorter than this part of the whole is not worth a line.
const LEAST_SHARE: u64 = 100;

/// Lines below one other.
const MOST_LINES_WITHIN: usize = 12;

/// How far lines are indented.
const DEEPEST: usize = 12;

/// Appends the tree, of which the whole took `total`; at most `left` lines, which are counted down.
pub fn push(out: &mut String, blame: &Blame, total: u64, left: &mut usize) {
    push_nodes(out, blame, &blame.roots(), total, 0, left);
}

fn push_nodes(
    out: &mut String,
    blame: &Blame,
    nodes: &[&Node],
    total: u64,
    depth: usize,
    left: &mut usize,
) {
    let is_worth = |node: &&&Node| node.ns >= total / LEAST_SHARE;
    let lines = nodes.iter().take_while(is_worth).count();
    let lines = lines.clamp(usize::from(!nodes.is_empty()), MOST_LINES_WITHIN);
    for node in nodes.iter().take(lines) {
        if *left == 0 {
            return;
        }
        *left -= 1;
        let children = blame.children(node);
        let times = match node.count {
            1 => String::new(),
            count => format!(" ({count} times)"),
        };
        let what = part(&node.part, !children.is_empty());
        push_line(out, node.ns, total, depth, &format!("{what}{times}"));
        if depth < DEEPEST {
            push_nodes(out, blame, &children, total, depth + 1, left);
        }
    }
    let rest = nodes.iter().skip(lines).map(|node| node.ns);
    let rest = rest.fold(0, u64::saturating_add);
    if rest > 0 && *left > 0 {
        *left -= 1;
        let others = nodes.len() - lines;
        let what = match others {
            1 => "another, shorter".to_owned(),
            _ => format!("{others} others, each shorter"),
        };
        push_line(out, rest, total, depth, &what);
    }
}

fn push_line(out: &mut String, ns: u64, total: u64, depth: usize, what: &str) {
    out.push_str(&format!(
        "{:>11} {:>6}  {:indent$}{what}\n",
        duration(ns),
        share(ns, total),
        "",
        indent = 2 * depth
    ));
}
