"""Scenarios in which the embedded server still differs from a real one, and in what.

A test that passes although it stands here fails: take it out.
"""

KNOWN = {
    "a-secret-keeps-bytes-and-takes-text": "the place of the wrong byte in a message",
    "apply-of-another-subresource-has-its-own-entry": "there is no scale subresource",
    "what-apply-refuses": "an applied object of another kind, and a selector that is missing, in other words",
    "a-gpu-node-tells-its-chain": "errors in a status are named from the object on, not from the status on",
    "a-definition-that-cannot-be-served-is-refused": "the stored versions are not complained of as well",
    "tables-of-nodes-deployments-daemon-sets-and-policies": "a row of a daemon set shows its old annotation",
    "metadata-alone": "406 has a body of its own",
    "access-reviews-answer-for-the-administrator": "reviews have no managedFields; all may do all",
    "bodies-that-cannot-be-read": "the words of Go's JSON and YAML parsers",
    "nothing-is-there": "404 of unknown groups is no Status; POST to an object is 404, not 405",
    "names-and-bodies-that-cannot-be": "`y` in YAML is text; another kind in other words",
    "pods-that-cannot-be": "paths of fieldRef are not checked",
    "workloads-and-others-that-cannot-be": "some causes are not told when others are",
}
