"""How many random one-change mutants of a room its own tests notice: ``python -m tests.mutants ROOM``.

1. The sources are copied to a temporary folder. Everything below happens in processes of the copy.
2. The tests of the room run once (`measuring.py`): which test executes which line, and how long each takes.
3. Changes are drawn at random, each place with the same chance (`changes.py`): an operator, a condition, a
   constant, a value that is returned, a statement that is left out. Docstrings, annotations, and text for
   people and logs are left alone.
4. For each mutant the tests run that execute the changed line, the quickest first, until one fails
   (`trying.py`). A test that takes far longer than it did has noticed it too. A mutant that no test notices
   has survived.

Three things count against the tests: a line that no test executes in the process of pytest (a server that a
test starts as a command is another process), a mutant that only a test beyond ``--budget`` would notice, and
a mutant that behaves as the original does.

`survivors.md` lists the survivors of the last runs, each with its reason.
"""
