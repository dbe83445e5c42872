"""Sources and results. Import what you need from its module.

``open`` is the one door for data; what lies beside it decides what is meant by a path, group or object. Rooms, each
importing from those before it only: ``remote``, ``writing``, then ``sources``, ``artifacts`` and ``checkpoints``, then
``tables`` and ``grids``; ``ingesting`` is above the door.
"""
