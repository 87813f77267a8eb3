//! The results of `replay.py` and the floors they are held against.
//!
//! A floor is the percentage of a folder's steps that agreed when it was last raised. A folder may only get better: a
//! result below its floor fails, one above it is told so that the floor can be raised.

use std::collections::BTreeMap;
use std::fmt;

/// How the stories of one folder went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folder {
    /// Stories of which every step agreed.
    pub passed: u32,
    /// All stories.
    pub stories: u32,
    /// Steps that agreed.
    pub same: u32,
    /// All steps.
    pub steps: u32,
}

/// Percentages, in tenths, by folder.
pub type Floors = BTreeMap<String, u32>;

/// How a folder stands to its floor.
#[derive(Clone, Debug)]
pub struct Row {
    name: String,
    folder: Option<Folder>,
    floor: Option<u32>,
}

impl Folder {
    /// The percentage of steps that agreed, in tenths, rounded down.
    pub fn tenths(&self) -> u32 {
        (u64::from(self.same) * 1000)
            .checked_div(self.steps.into())
            .and_then(|t| u32::try_from(t).ok())
            .unwrap_or(0)
    }
}

/// The table that `replay.py` prints, by folder: `stories/apply   3/10   41/60   2`.
pub fn parse_table(output: &str) -> BTreeMap<String, Folder> {
    let fraction = |word: &str| -> Option<(u32, u32)> {
        let (part, whole) = word.split_once('/')?;
        Some((part.parse().ok()?, whole.parse().ok()?))
    };
    let row = |line: &str| -> Option<(String, Folder)> {
        let words: Vec<_> = line.split_whitespace().collect();
        let [name, stories, steps, _wrong_status] = words[..] else {
            return None;
        };
        let ((passed, stories), (same, steps)) = (fraction(stories)?, fraction(steps)?);
        let name = name.rsplit('/').next()?.to_owned();
        Some((
            name,
            Folder {
                passed,
                stories,
                same,
                steps,
            },
        ))
    };
    output.lines().filter_map(row).collect()
}

/// Floors as in `tests/replay-floor.toml`: `folder = 97.5` lines and comments.
pub fn parse_floors(text: &str) -> Result<Floors, String> {
    let mut floors = Floors::new();
    for line in text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
    {
        let entry = line
            .split_once('=')
            .and_then(|(name, value)| Some((name.trim(), tenths(value.trim())?)));
        let (name, floor) = entry.ok_or_else(|| format!("not `folder = percentage`: {line}"))?;
        floors.insert(name.to_owned(), floor);
    }
    Ok(floors)
}

fn tenths(text: &str) -> Option<u32> {
    let (whole, tenth) = text.split_once('.').unwrap_or((text, "0"));
    let value = whole
        .parse::<u32>()
        .ok()?
        .checked_mul(10)?
        .checked_add(tenth.parse::<u32>().ok()?)?;
    (tenth.len() == 1 && value <= 1000).then_some(value)
}

/// The floors as text, each raised to what was reached where that is more.
pub fn raised(floors: &Floors, results: &BTreeMap<String, Folder>, header: &str) -> String {
    let mut all = floors.clone();
    for (name, folder) in results {
        let floor = all.entry(name.clone()).or_default();
        *floor = folder.tenths().max(*floor);
    }
    let lines = all
        .iter()
        .map(|(name, floor)| format!("{name} = {}\n", percent(*floor)));
    format!("{header}{}", lines.collect::<String>())
}

/// Every folder that has a result or a floor.
pub fn compare(floors: &Floors, results: &BTreeMap<String, Folder>) -> Vec<Row> {
    let mut names: Vec<_> = floors.keys().chain(results.keys()).collect();
    names.sort();
    names.dedup();
    let row = |name: &String| Row {
        name: name.clone(),
        folder: results.get(name).cloned(),
        floor: floors.get(name).copied(),
    };
    names.into_iter().map(row).collect()
}

impl Row {
    /// Below its floor, or without a result although it has one, or without a floor.
    pub fn fails(&self) -> bool {
        match (&self.folder, self.floor) {
            (Some(folder), Some(floor)) => folder.tenths() < floor,
            _ => true,
        }
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (reached, floor) = (self.folder.as_ref().map(Folder::tenths), self.floor);
        let verdict = match (reached, floor) {
            (None, _) => "no result",
            (_, None) => "has no floor",
            (Some(reached), Some(floor)) if reached < floor => "BELOW ITS FLOOR",
            (Some(reached), Some(floor)) if reached > floor => "above its floor",
            _ => "",
        };
        let text = |tenths: Option<u32>| tenths.map_or_else(|| "-".to_owned(), percent);
        let counts = self
            .folder
            .as_ref()
            .map_or_else(String::new, |x| format!("{}/{}", x.same, x.steps));
        write!(
            f,
            "{:<14} {counts:>11} {:>6} % (floor {:>5} %) {verdict}",
            self.name,
            text(reached),
            text(floor)
        )
    }
}

fn percent(tenths: u32) -> String {
    format!("{}.{}", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "
group                                          stories     steps same  wrong status
stories/apply                                   3/10       41/60              2
stories/discovery                              10/10       99/99              0
steps: 140/159 the same (88.1 %)
13 passed, 7 failed
";

    #[test]
    fn the_table_is_read_and_nothing_else() {
        let results = parse_table(TABLE);
        assert_eq!(results.len(), 2);
        assert_eq!(
            results["apply"],
            Folder {
                passed: 3,
                stories: 10,
                same: 41,
                steps: 60
            }
        );
        assert_eq!(results["apply"].tenths(), 683);
    }

    #[test]
    fn a_drop_a_missing_result_and_a_missing_floor_all_fail() {
        let results = parse_table(TABLE);
        let verdicts = |floors: &str| -> Vec<bool> {
            compare(&parse_floors(floors).unwrap(), &results)
                .iter()
                .map(Row::fails)
                .collect()
        };
        assert_eq!(verdicts("apply = 68.3\ndiscovery = 100.0"), [false, false]);
        assert_eq!(verdicts("apply = 68.4\ndiscovery = 100.0"), [true, false]);
        assert_eq!(verdicts("apply = 60\n"), [false, true]);
        assert_eq!(verdicts("apply = 60\ndiscovery = 1\nwatch = 0"), [false, false, true]);
    }

    #[test]
    fn floors_are_raised_but_never_lowered() {
        let floors = parse_floors("apply = 90.0\ndiscovery = 5.5").unwrap();
        assert_eq!(
            raised(&floors, &parse_table(TABLE), "# x\n"),
            "# x\napply = 90.0\ndiscovery = 100.0\n"
        );
    }

    #[test]
    fn what_is_not_a_floor_is_told() {
        for wrong in ["apply", "apply = x", "apply = 101", "apply = 1.25"] {
            assert!(parse_floors(wrong).unwrap_err().contains(wrong), "{wrong}");
        }
    }
}
