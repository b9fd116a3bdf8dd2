"""Prove what is stored, from the stored rows alone; then against a node; repair it.

- ``faults``: what can be wrong, and what is found in a piece
- ``examine``: the rows of blocks, proven again; pure
- ``extent``: which heights there should be, and which rows there are
- ``piece``: a piece of the heights, chunk by chunk, and its coverage corrected
- ``crew``: pieces in several processes
- ``nodes``: stored hashes against a node's
- ``fields``: every stored field against a node's
- ``audit``: the whole: begin or go on, gather, report
- ``record``: what is kept of it meanwhile
- ``profile``: what can be proven, without a node to ask
- ``report``: what was proven, what not and why, as text and JSON
- ``repair``: plan what is missing, replace what is wrong
"""
