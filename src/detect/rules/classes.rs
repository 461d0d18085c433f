//! Numbers of word classes, and sets of them.
#![forbid(unsafe_code)]

/// How many classes a rule set has room for, named and unnamed together.
pub(in crate::detect) const MAX_CLASSES: usize = 64 * BITS;
const BITS: usize = 8;

/// A number of a class.
pub(in crate::detect) type Class = u16;

/// A set of classes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Classes([u64; BITS]);

impl Classes {
  /// Adds a class to the set.
  pub fn insert(&mut self, class: Class) {
    if let Some(word) = self.0.get_mut(usize::from(class) / 64) {
      *word |= 1 << (class % 64);
    }
  }

  /// Whether the set contains all classes of `other`.
  pub fn contains_all(&self, other: &Self) -> bool {
    self.0.iter().zip(&other.0).all(|(here, there)| here & there == *there)
  }

  /// Whether the set contains any class of `other`.
  pub fn intersects(&self, other: &Self) -> bool {
    self.0.iter().zip(&other.0).any(|(here, there)| here & there != 0)
  }

  /// Whether the set contains no class.
  pub fn is_empty(&self) -> bool {
    self.0.iter().all(|word| *word == 0)
  }

  /// The classes that are in either set.
  pub fn union(&self, other: &Self) -> Self {
    let mut out = *self;
    for (here, there) in out.0.iter_mut().zip(&other.0) {
      *here |= there;
    }
    out
  }

  /// The numbers that are in both sets, ascending.
  pub fn common(&self, other: &Self) -> impl Iterator<Item = Class> {
    let words = self.0;
    let others = other.0;
    words.into_iter().zip(others).enumerate().flat_map(|(index, (a, b))| {
      let mut word = a & b;
      std::iter::from_fn(move || {
        (word != 0).then(|| {
          let bit = word.trailing_zeros();
          word &= word - 1;
          (index * 64) as Class + bit as Class
        })
      })
    })
  }
}
