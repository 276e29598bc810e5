"""The same scripts on a pretend ensemble and on a real one: what clients see of both must be equal.

* ``sessions``, ``reading``, ``losing``: the scripts, in terms of roles: ``L`` leads at first, ``F`` and ``G``
  follow, ``O`` observes.
* ``sides``: how each side does it: the pretend ensemble by its verbs, the real one by signals to its
  processes and by links between them that hold up or lose what is sent.
* ``speaker``: a client whose every arrival becomes a line of the transcript.
* ``masks``: what differs from run to run gets a name: zxids are counted from the start, sessions are letters.
"""
