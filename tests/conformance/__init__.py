"""The same expectations of the simulator's API server and of a real kube-apiserver.

`make conformance` runs every test against both; the real one is skipped with a reason where `make kubernetes`
has not been run, and so are kubectl and helm without `make clients`.

    scenarios/*.py   requests in order, named by what they show
    expected/*.json  what a real API server answered, with times, versions and uids made comparable
    sessions/*.py    what is typed at kubectl and helm; expected/CLIENT-MINOR/*.txt is what they printed
    test_*.py        what cannot be said as requests and answers: watches, garbage collection, pages

`CONFORMANCE_RECORD=1 make conformance` writes expected/ anew from the real server; look at the diff.
"""
