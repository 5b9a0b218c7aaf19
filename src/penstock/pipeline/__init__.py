"""Policies over recorded events, on Spark. Needs the extra `pipeline` and a Java of version 17 or 21."""
