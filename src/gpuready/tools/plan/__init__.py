"""`gpuready plan`: what would change if a policy were applied; nothing is written.

look.py       what is there: objects read once from the cluster, or nodes from a file
foresee.py    what would be, by asking the controller's own decisions
forecast.py   the answer as values
text.py       the answer as people read it
"""
