"""Matching by content: what a publication costs against the number of subscriptions."""
