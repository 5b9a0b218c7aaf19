"""The admin HTTP API of a node: a table of endpoints, from which the routes and the OpenAPI document are made."""
