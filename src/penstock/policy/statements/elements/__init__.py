"""Rule elements: the conditions and actions of policy statements (statements §4.4). `table.py` lists them."""
