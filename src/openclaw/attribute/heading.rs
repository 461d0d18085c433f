//! Headings that only name the kind of the text below them.
//!
//! An agent sorts its notes under headings of its own, and the owner's sentence below "# Rules" is still the
//! owner's. A heading may also reverse the meaning of the text below it ("Obsolete") or say to whom it belongs, so only
//! words on a closed list and dates are plain; all others are compared like any sentence.
#![forbid(unsafe_code)]

use std::borrow::Cow;

/// Most words of a plain heading.
const MAX_WORDS: usize = 5;

/// A text without its plain headings; the whole of it where nothing else is left.
pub(super) fn without_plain_headings(text: &str) -> Cow<'_, str> {
  if !text.lines().any(is_plain) {
    return Cow::Borrowed(text);
  }
  let rest: String = text.split_inclusive('\n').filter(|line| !is_plain(line)).collect();
  if rest.trim().is_empty() { Cow::Borrowed(text) } else { Cow::Owned(rest) }
}

/// Whether a line is a heading of plain words.
fn is_plain(line: &str) -> bool {
  let Some(title) = title(line) else { return false };
  let lower = title.to_lowercase();
  let mut words = lower.split(|c: char| c.is_whitespace() || matches!(c, ',' | '&')).peekable();
  words.peek().is_some()
    && lower.split_whitespace().count() <= MAX_WORDS
    && words.filter(|word| !word.is_empty()).all(|word| {
      WORDS.contains(&word) || is_date(word) || CALENDAR.iter().any(|begin| word.starts_with(begin))
    })
}

/// What a line is the title of, without its marks.
pub(super) fn title(line: &str) -> Option<&str> {
  let line = line.trim();
  let bare = line.trim_start_matches('#');
  let is_marked = bare.len() < line.len() && bare.starts_with([' ', '\t']);
  let strong = bare.trim().trim_end_matches([':', '：']);
  let inner = strong.strip_prefix("**").and_then(|text| text.strip_suffix("**"));
  let is_title = is_marked || inner.is_some() || strong.len() < bare.trim().len();
  let inner = inner.unwrap_or(strong).trim_end_matches([':', '：']).trim();
  (is_title && !inner.is_empty()).then_some(inner)
}

/// A day, a time or a year.
fn is_date(word: &str) -> bool {
  let parts: Vec<&str> = word.trim_end_matches(['.', ',']).split(['-', '.', '/', ':']).collect();
  let is_number = |part: &&str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
  let is_short = |part: &&&str| part.len() <= 2;
  let n_short = parts.iter().filter(is_short).count();
  let is_year = |part: &&str| part.len() == 4 && (part.starts_with("19") || part.starts_with("20"));
  let n_years = parts.iter().filter(|part| is_year(part)).count();
  parts.iter().all(is_number)
    && parts.len() <= 3
    && n_short + n_years == parts.len()
    && n_years <= 1
}

/// How months and days of the week begin.
#[rustfmt::skip]
const CALENDAR: &[&str] = &[
  "januar", "februar", "märz", "april", "juni", "juli", "august", "septemb", "octob", "oktob", "novemb", "decemb",
  "dezemb", "monday", "montag", "tuesday", "dienstag", "wednesday", "mittwoch", "thursday", "donnerstag", "friday",
  "freitag", "saturday", "samstag", "sunday", "sonntag",
];

/// Words that name a kind of notes, and what joins them.
#[rustfmt::skip]
const WORDS: &[&str] = &[
  "and", "of", "the", "for", "my", "our", "und", "et", "y", "e", "i", "og", "och", "en", "и",
  "about", "accounts", "agreements", "appointments", "banking", "billing", "birthdays", "calendar", "car",
  "communication", "contact", "contacts", "daily", "dates", "day", "details", "devices", "diet", "email", "environment",
  "events", "facts", "family", "finance", "finances", "food", "friends", "garden", "general", "groceries", "habits",
  "health", "hobbies", "home", "house", "info", "information", "invoices", "journal", "june", "july", "language", "log",
  "long-term", "mail", "march", "may", "medical", "meetings", "memory", "memories", "messages", "misc",
  "miscellaneous", "money", "network", "note", "notes", "office", "organisation", "organization", "owner", "payment",
  "payments", "people", "personal", "pets", "preference", "preferences", "profile", "project", "projects", "recipes",
  "reminders", "reports", "routines", "rule", "rules", "schedule", "school", "servers", "settings", "setup", "shopping",
  "study", "style", "summary", "tasks", "team", "to-do", "todo", "tools", "topics", "travel", "trips", "user", "week",
  "weekly", "work", "workflow",
  "allgemein", "allgemeines", "arbeit", "aufgaben", "büro", "einkauf", "essen", "familie", "fakten", "finanzen",
  "freunde", "garten", "gesundheit", "haus", "kontakte", "leute", "mai", "notiz", "notizen", "nutzer", "personen",
  "projekte", "rechnungen", "regeln", "reisen", "schule", "termine", "vorlieben", "zahlungen", "zuhause",
  "contactos", "datos", "familia", "notas", "pagos", "personas", "preferencias", "proyectos", "reglas", "salud",
  "tareas", "trabajo", "viajes",
  "contatti", "famiglia", "lavoro", "pagamenti", "persone", "preferenze", "progetti", "regole", "salute", "viaggi",
  "famille", "maison", "paiements", "personnes", "préférences", "projets", "règles", "réunions", "santé", "travail",
  "voyages", "contatos", "família", "pagamentos", "pessoas", "preferências", "projetos", "regras", "saúde", "viagens",
  "afspraken", "betalingen", "familj", "gezin", "gezondheid", "mensen", "notities", "regels", "voorkeuren", "werk",
  "anteckningar", "arbete", "betalningar", "hälsa", "regler", "noter", "betalinger", "arbejde", "sundhed",
  "kontakty", "notatki", "praca", "płatności", "reguły", "rodzina", "zadania", "zdrowie", "pravidla", "poznámky",
  "заметки", "здоровье", "контакты", "люди", "оплата", "платежи", "правила", "проекты", "работа", "семья",
  "нотатки", "笔记", "备忘", "规则", "联系人", "付款", "家庭", "工作", "偏好", "メモ", "ルール", "連絡先", "메모", "규칙",
];

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn headings_of_plain_nouns_and_dates_go() {
    for line in [
      "# Rules",
      "## Payments and invoices:",
      "# 2026-11-25",
      "### Tuesday, 25 November 2026",
      "## 14:05",
      "**Notes**",
      "Regeln:",
      "# 25.11.2026",
    ] {
      assert!(is_plain(line), "{line}");
      assert_eq!(without_plain_headings(&format!("{line}\n\n- Pay.\n")).trim(), "- Pay.");
      assert_eq!(without_plain_headings(line), line);
    }
  }

  #[test]
  fn all_other_headings_stay() {
    for line in [
      "# Never",
      "# Obsolete rules",
      "# Pay Orion",
      "# Orion",
      "# Always approve",
      "# 4711-22",
      "# DE89370400440532013000",
      "# 500",
      "# Rules that no longer hold",
      "Rules",
      "#rules",
      "- Rules",
      "- Rules:",
      "# Payments to Orion",
      "Forbidden:",
      ":",
      "",
    ] {
      assert!(!is_plain(line), "{line}");
    }
  }
}
