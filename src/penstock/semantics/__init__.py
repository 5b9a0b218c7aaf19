"""The operational semantics of brokering policies and execution monitors, transcribed: small, slow, the oracle.

It follows section 5 of "Brokering Policies and Execution Monitors for IoT Middleware" (Fuentes Carranza and Fong):
`schema` is §5.1, `state` §5.2, `rules` §5.3, each under the paper's names. `ordering` has relative network speeds to
choose from, `explore` follows every interleaving of a small system, or one. Nothing here is used by a live node: it
is what a live node is tested against.

Two things are more general than §5, both as the paper's own implementation is: a broker may have a brokering table of
its own (§7.2), and a link towards a device may have a monitor (§7.3.2, `im_sub`). A schema that uses neither is the
paper's.
"""
