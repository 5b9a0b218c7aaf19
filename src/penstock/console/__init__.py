"""The console: a web page for operators, in a process of its own, with what nodes report to the logged-in person."""
