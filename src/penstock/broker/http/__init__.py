"""The admin HTTP API of a node: a table of endpoints, of which both the routes and the OpenAPI document are made."""
