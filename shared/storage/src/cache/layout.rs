//! Where things are in an object's JSON text, found in one pass: what the splice of a resourceVersion, list items and
//! selectors need to know.

use std::borrow::Cow;

use super::object::FieldPath;
use super::scan::{Members, Name, ScanError, Span, scalar, skip_value};

/// Where things are in a text before the splice.
pub(super) struct Layout {
    pub(super) after_kind: usize,
    /// `kind` or `apiVersion` does not stand in front of everything else.
    pub(super) misplaced: bool,
    pub(super) metadata: Option<Span>,
    pub(super) metadata_has_members: bool,
    pub(super) stored_revision: bool,
    pub(super) labels: Span,
    pub(super) fields: Vec<Span>,
}

impl Layout {
    pub(super) fn scan(json: &[u8], declared: &[FieldPath]) -> Result<Self, ScanError> {
        let mut search = Search::new(json, declared);
        let mut layout = Self {
            after_kind: 1,
            misplaced: false,
            metadata: None,
            metadata_has_members: false,
            stored_revision: false,
            labels: Span::default(),
            fields: Vec::new(),
        };
        let mut leading = true;
        let mut members = Members::new(json, 0)?;
        while let Some(Name { name, value, .. }) = members.next_name()? {
            let name = name.of(json);
            let step = search.step(name, 0, search.all);
            let is_metadata = name == b"metadata" && layout.metadata.is_none();
            let end = if is_metadata {
                layout.metadata(&mut search, value, step)?
            } else {
                search.value(value, 0, step)?
            };
            let next = members.resume(end)?;
            if matches!(name, b"kind" | b"apiVersion") {
                layout.misplaced |= !leading;
                layout.after_kind = next;
            } else {
                leading = false;
            }
        }
        layout.fields = search.found;
        Ok(layout)
    }

    /// Looks into `metadata`; gives its end.
    fn metadata(&mut self, search: &mut Search<'_>, at: usize, step: Step) -> Result<usize, ScanError> {
        let json = search.json;
        let mut members = Members::new(json, at)?;
        while let Some(Name { name, value, .. }) = members.next_name()? {
            let name = name.of(json);
            self.metadata_has_members = true;
            let inner = search.step(name, 1, step.deeper);
            let end = search.value(value, 1, inner)?;
            members.resume(end)?;
            match name {
                b"resourceVersion" => self.stored_revision = true,
                b"labels" if json[value] == b'{' => self.labels = Span::new(value, end),
                _ => {}
            }
        }
        self.metadata = Some(Span::new(at, members.end()));
        Ok(members.end())
    }

    pub(super) fn is_canonical(&self) -> bool {
        !self.misplaced && !self.stored_revision
    }

    /// The text with `kind` and `apiVersion` in front and without a stored resourceVersion.
    pub(super) fn rewritten(&self, json: &[u8]) -> Result<Vec<u8>, ScanError> {
        let (mut front, mut back): (Vec<&[u8]>, Vec<Cow<'_, [u8]>>) = (Vec::new(), Vec::new());
        let mut members = Members::new(json, 0)?;
        while let Some(member) = members.next()? {
            let whole = &json[member.start..member.value.end as usize];
            match member.name.of(json) {
                b"kind" => front.insert(0, whole),
                b"apiVersion" => front.push(whole),
                b"metadata" if self.stored_revision => {
                    back.push(Cow::Owned(without_revision(json, member.value)?));
                }
                _ => back.push(Cow::Borrowed(whole)),
            }
        }
        let parts: Vec<&[u8]> = front.into_iter().chain(back.iter().map(Cow::as_ref)).collect();
        Ok([b"{", parts.join(&b","[..]).as_slice(), b"}"].concat())
    }
}

fn without_revision(json: &[u8], metadata: Span) -> Result<Vec<u8>, ScanError> {
    let mut kept: Vec<&[u8]> = Vec::new();
    let mut members = Members::new(json, metadata.start as usize)?;
    while let Some(member) = members.next()? {
        if member.name.of(json) != b"resourceVersion" {
            kept.push(&json[member.start..member.value.end as usize]);
        }
    }
    Ok([b"\"metadata\":{", kept.join(&b","[..]).as_slice(), b"}"].concat())
}

/// Finds declared fields in the one pass that skips everything else: a bit per path that still fits the way down to
/// where the scan is.
struct Search<'a> {
    json: &'a [u8],
    declared: &'a [FieldPath],
    all: u64,
    found: Vec<Span>,
    /// The rank of the path that gave what was found.
    best: Vec<usize>,
}

/// What a member's name means to the search.
#[derive(Debug, Clone, Copy, Default)]
struct Step {
    /// Paths that end here.
    hits: u64,
    /// Paths that go on below.
    deeper: u64,
}

impl<'a> Search<'a> {
    fn new(json: &'a [u8], declared: &'a [FieldPath]) -> Self {
        let all = paths(declared).fold(0, |all, (bit, ..)| all | 1 << bit);
        let count = declared.len();
        Self {
            json,
            declared,
            all,
            found: vec![Span::default(); count],
            best: vec![usize::MAX; count],
        }
    }

    fn step(&self, name: &[u8], depth: usize, wanted: u64) -> Step {
        let mut step = Step::default();
        if wanted == 0 {
            return step;
        }
        for (bit, _, _, path) in paths(self.declared) {
            if wanted & (1 << bit) != 0 && path.get(depth).is_some_and(|part| part.as_bytes() == name) {
                *(if path.len() == depth + 1 {
                    &mut step.hits
                } else {
                    &mut step.deeper
                }) |= 1 << bit;
            }
        }
        step
    }

    /// Takes from the value at `at` what is wanted; gives its end.
    fn value(&mut self, at: usize, depth: usize, step: Step) -> Result<usize, ScanError> {
        if step.deeper != 0 && self.json.get(at) == Some(&b'{') {
            let mut members = Members::new(self.json, at)?;
            while let Some(Name { name, value, .. }) = members.next_name()? {
                let inner = self.step(name.of(self.json), depth + 1, step.deeper);
                let end = self.value(value, depth + 1, inner)?;
                members.resume(end)?;
            }
            return Ok(members.end());
        }
        let end = skip_value(self.json, at)?;
        if step.hits != 0
            && let Some(span) = scalar(self.json, Span::new(at, end))
            && !span.is_empty()
        {
            for (_, field, rank, _) in paths(self.declared).filter(|(bit, ..)| step.hits & (1 << bit) != 0) {
                if rank < self.best[field] {
                    self.best[field] = rank;
                    self.found[field] = span;
                }
            }
        }
        Ok(end)
    }
}

/// Bit, field, rank within the field, and the path itself.
fn paths(declared: &[FieldPath]) -> impl Iterator<Item = (u32, usize, usize, &[Box<str>])> {
    let flat = declared.iter().enumerate().flat_map(|(field, declared)| {
        declared
            .paths
            .iter()
            .enumerate()
            .map(move |(rank, path)| (field, rank, &path[..]))
    });
    (0..64)
        .zip(flat)
        .map(|(bit, (field, rank, path))| (bit, field, rank, path))
}
