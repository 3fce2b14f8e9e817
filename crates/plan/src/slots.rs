//! Sets of hash slots and how a new cluster divides them.

use std::fmt;
use std::str::FromStr;

use foreshard_api::SLOTS;

/// A set of hash slots, kept as sorted, disjoint, non-adjacent inclusive ranges.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct SlotSet(Vec<(u16, u16)>);

/// Why a text is not a set of slots.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("\"{0}\" is not a slot or a range of slots between 0 and 16383")]
pub struct NotSlots(String);

impl SlotSet {
    /// The empty set.
    #[must_use]
    pub const fn empty() -> Self {
        Self(Vec::new())
    }

    /// All 16384 slots.
    #[must_use]
    pub fn all() -> Self {
        Self(vec![(0, SLOTS - 1)])
    }

    /// The slots from `first` to `last`, both included; empty when they are out of order or out of range.
    #[must_use]
    pub fn range(first: u16, last: u16) -> Self {
        if first > last || last >= SLOTS {
            Self::empty()
        } else {
            Self(vec![(first, last)])
        }
    }

    /// The ranges, in order.
    #[must_use]
    pub fn ranges(&self) -> &[(u16, u16)] {
        &self.0
    }

    /// How many slots are in the set.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0
            .iter()
            .map(|&(first, last)| usize::from(last - first) + 1)
            .sum()
    }

    /// Whether no slot is in the set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The slots in either set.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        let mut ranges: Vec<(u16, u16)> = self.0.iter().chain(&other.0).copied().collect();
        ranges.sort_unstable();
        let mut merged: Vec<(u16, u16)> = Vec::with_capacity(ranges.len());
        for (first, last) in ranges {
            match merged.last_mut() {
                Some(before) if first <= before.1.saturating_add(1) => before.1 = before.1.max(last),
                _ => merged.push((first, last)),
            }
        }
        Self(merged)
    }

    /// The slots of this set that are not in `other`.
    #[must_use]
    pub fn minus(&self, other: &Self) -> Self {
        let mut left = Vec::new();
        for &(start, last) in &self.0 {
            let mut first = start;
            let mut whole = true;
            for &(from, to) in other.0.iter().filter(|&&(from, to)| from <= last && to >= start) {
                if from > first {
                    left.push((first, from - 1));
                }
                if to >= last {
                    whole = false;
                    break;
                }
                first = to + 1;
            }
            if whole {
                left.push((first, last));
            }
        }
        Self(left)
    }

    /// The slots in both sets.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        self.minus(&self.minus(other))
    }

    /// Takes the first `count` slots out of the set.
    #[must_use]
    pub fn take_first(&mut self, count: usize) -> Self {
        let mut wanted = count;
        let mut taken = Vec::new();
        for &(first, last) in &self.0 {
            let size = usize::from(last - first) + 1;
            let part = size.min(wanted);
            if part == 0 {
                break;
            }
            // `part` is at most 16384, so it fits.
            let end = u16::try_from(usize::from(first) + part - 1).unwrap_or(last);
            taken.push((first, end));
            wanted -= part;
        }
        let taken = Self(taken);
        *self = self.minus(&taken);
        taken
    }
}

impl FromIterator<(u16, u16)> for SlotSet {
    fn from_iter<I: IntoIterator<Item = (u16, u16)>>(ranges: I) -> Self {
        let mut sorted: Vec<(u16, u16)> = ranges
            .into_iter()
            .filter(|&(first, last)| first <= last && last < SLOTS)
            .collect();
        sorted.sort_unstable();
        Self(sorted).union(&Self::empty())
    }
}

impl FromStr for SlotSet {
    type Err = NotSlots;

    /// Reads `"0-5460"`, `"7"` or several of them with blanks or commas between.
    fn from_str(text: &str) -> Result<Self, NotSlots> {
        text.split([' ', ','])
            .filter(|part| !part.is_empty())
            .map(parse_range)
            .collect()
    }
}

fn parse_range(part: &str) -> Result<(u16, u16), NotSlots> {
    let (first, last) = part.split_once('-').unwrap_or((part, part));
    match (first.parse::<u16>(), last.parse::<u16>()) {
        (Ok(first), Ok(last)) if first <= last && last < SLOTS => Ok((first, last)),
        _ => Err(NotSlots(part.to_owned())),
    }
}

impl fmt::Display for SlotSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut between = "";
        for (first, last) in &self.0 {
            if first == last {
                write!(f, "{between}{first}")?;
            } else {
                write!(f, "{between}{first}-{last}")?;
            }
            between = " ";
        }
        Ok(())
    }
}

impl fmt::Debug for SlotSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{{self}}}")
    }
}

/// Gives unowned slots to the shards that have the fewest, so that all end as even as they can.
///
/// `owned` holds how many slots each shard has already; the answer has one set per shard, in the same order. A new
/// cluster gets one contiguous range per shard.
#[must_use]
pub fn assign_unowned(unowned: &SlotSet, owned: &[usize]) -> Vec<SlotSet> {
    let mut rest = unowned.clone();
    let shares = even_shares(unowned.len(), owned);
    shares.into_iter().map(|share| rest.take_first(share)).collect()
}

/// How many of `total` new slots each shard gets: repeatedly lift the lowest, done by levels rather than one by one.
fn even_shares(total: usize, owned: &[usize]) -> Vec<usize> {
    let mut counts = owned.to_vec();
    let mut left = total;
    while left > 0 && !counts.is_empty() {
        let lowest = counts.iter().copied().min().unwrap_or(0);
        let at_lowest = counts.iter().filter(|&&count| count == lowest).count();
        let next_level = counts.iter().copied().filter(|&count| count > lowest).min();
        let room = next_level
            .map_or(left, |level| (level - lowest) * at_lowest)
            .min(left);
        let (each, mut extra) = (room / at_lowest, room % at_lowest);
        for count in counts.iter_mut().filter(|count| **count == lowest) {
            *count += each + usize::from(extra > 0);
            extra = extra.saturating_sub(1);
        }
        left -= room;
    }
    counts
        .iter()
        .zip(owned)
        .map(|(count, before)| count - before)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn slots(text: &str) -> SlotSet {
        text.parse().unwrap()
    }

    #[test]
    fn text_goes_both_ways() {
        for text in ["", "0", "0-16383", "0-5 7 9-10"] {
            assert_eq!(slots(text).to_string(), text);
        }
        assert_eq!(slots("5-7,0-4").to_string(), "0-7");
        assert_eq!("16384".parse::<SlotSet>(), Err(NotSlots("16384".to_owned())));
        assert_eq!("9-3".parse::<SlotSet>(), Err(NotSlots("9-3".to_owned())));
    }

    #[test]
    fn a_new_cluster_gets_one_even_range_per_shard() {
        let shares = assign_unowned(&SlotSet::all(), &[0, 0, 0]);
        let texts: Vec<String> = shares.iter().map(ToString::to_string).collect();
        assert_eq!(texts, ["0-5461", "5462-10922", "10923-16383"]);
    }

    #[test]
    fn an_interrupted_assignment_goes_to_those_who_have_least() {
        let shares = assign_unowned(&slots("5462-16383"), &[5462, 0, 0]);
        let texts: Vec<String> = shares.iter().map(ToString::to_string).collect();
        assert_eq!(texts, ["", "5462-10922", "10923-16383"]);
    }

    fn any_set() -> impl Strategy<Value = SlotSet> {
        proptest::collection::vec((0u16..SLOTS, 0u16..400), 0..12).prop_map(|parts| {
            parts
                .into_iter()
                .map(|(first, more)| (first, (first + more).min(SLOTS - 1)))
                .collect()
        })
    }

    fn members(set: &SlotSet) -> std::collections::BTreeSet<u16> {
        set.ranges()
            .iter()
            .flat_map(|&(first, last)| first..=last)
            .collect()
    }

    proptest! {
        #[test]
        fn set_arithmetic_is_that_of_sets(a in any_set(), b in any_set()) {
            let (x, y) = (members(&a), members(&b));
            prop_assert_eq!(members(&a.union(&b)), &x | &y);
            prop_assert_eq!(members(&a.minus(&b)), &x - &y);
            prop_assert_eq!(members(&a.intersection(&b)), &x & &y);
            prop_assert_eq!(a.len(), x.len());
        }

        #[test]
        fn assignment_gives_every_unowned_slot_once_and_evens_out(unowned in any_set(), owned in proptest::collection::vec(0usize..3000, 1..8)) {
            let shares = assign_unowned(&unowned, &owned);
            let given = shares.iter().fold(SlotSet::empty(), |all, share| all.union(share));
            prop_assert_eq!(given, unowned.clone());
            prop_assert_eq!(shares.iter().map(SlotSet::len).sum::<usize>(), unowned.len());
            let after: Vec<usize> = shares.iter().zip(&owned).map(|(share, before)| share.len() + before).collect();
            for (share, &count) in shares.iter().zip(&after) {
                if !share.is_empty() {
                    prop_assert!(count <= after.iter().min().unwrap() + 1);
                }
            }
        }
    }
}
