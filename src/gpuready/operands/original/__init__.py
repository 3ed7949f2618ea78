"""What the objects of all original images share; each operand's own are in its `original.py`.

Source: gpu-operator v26.3.3, assets/ (the base objects), controllers/object_controls.go (what a policy
changes of them).
The shell texts are ours.
"""
