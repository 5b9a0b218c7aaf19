"""The console: a web page for operators, in a process of its own. It shows what nodes report to the logged-in
person."""
