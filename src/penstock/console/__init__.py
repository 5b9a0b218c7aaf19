"""The console: a page for operators, in a process of its own. It shows what nodes tell the person who has logged in."""
