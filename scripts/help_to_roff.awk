# Turns the text of a --help into the body of a section of a man page: rows ("  --json   an object")
# become tagged paragraphs, what else is indented or aligned stays as it is.
function roff(text) {
  gsub(/\\/, "\\e", text)
  gsub(/-/, "\\-", text)
  return text ~ /^[.']/ ? "\\&" text : text
}
function keep_lines(on) {
  if (on != lines_kept) print on ? ".nf" : ".fi"
  lines_kept = on
}
function row(text,   gap) {
  gap = match(text, /  +/)
  print ".TP\n.B " roff(gap ? substr(text, 1, gap - 1) : text)
  if (gap) print roff(substr(text, gap + RLENGTH))
}
/^$/ { if (had_rows) in_list = had_rows = 0; blank = 1; next }
blank { keep_lines(0); print ".PP"; blank = 0 }
/^Usage: / || /\[options\]/ { sub(/^Usage: /, ""); print ".PP\n.B " roff($0) "\n.PP"; next }
/^[A-Z][a-z]+:$/ { print roff($0); in_list = 1; next }
/^  -/ || (in_list && /^  [^ ]/) { row(substr($0, 3)); had_rows = 1; next }
had_rows && /^          / { sub(/^ +/, ""); print roff($0); next }
{ keep_lines(NR > 1); print roff($0) }
END { keep_lines(0) }
