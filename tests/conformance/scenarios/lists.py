"""Lists, selectors, pages."""

from ..transcript import Scenario
from .words import MAPS, PODS, SECRETS, config_map, get, patch, pod, post

SCENARIOS = [
    Scenario(
        "label selectors choose",
        [
            post(MAPS, config_map("a", labels={"x": "1", "y": "2"})),
            post(MAPS, config_map("b", labels={"x": "2"})),
            post(MAPS, config_map("c", labels={"z": ""})),
            *(
                get(MAPS, labelSelector=f"{text},!none" if text else "x,!none")
                for text in (
                    "x=1",
                    "x!=1,x",
                    "x in (1,2)",
                    "x notin (1),x",
                    "!x,z",
                    "x,y",
                    "z=",
                    "x>1",
                    "x==2",
                )
            ),
            get(MAPS, labelSelector="x in (1"),
            get(MAPS, labelSelector="=a"),
            get(MAPS, labelSelector="bad key!=x"),
            get(MAPS, labelSelector="x=bad value"),
        ],
    ),
    Scenario(
        "field selectors choose",
        [
            post(PODS, pod("p1", nodeName="n1")),
            post(PODS, pod("p2")),
            get(PODS, fieldSelector="spec.nodeName=n1"),
            get(PODS, fieldSelector="spec.nodeName="),
            get(PODS, fieldSelector="metadata.name!=p1"),
            get(PODS, fieldSelector="status.phase=Pending,spec.nodeName!=n1"),
            get(PODS, fieldSelector="spec.hostname=x"),
            get(PODS, fieldSelector="nonsense"),
            get(MAPS, fieldSelector="data.k=1"),
            get(f"{MAPS}", fieldSelector="metadata.name=kube-none"),
            patch("merge", f"{PODS}/p1", {"metadata": {"labels": {"a": "b"}}}),
        ],
    ),
    Scenario(
        "what a list may not be asked",
        [
            get(SECRETS, limit="x"),
            get(SECRETS, limit="-1"),
            get(SECRETS, resourceVersion="x"),
            get(SECRETS, resourceVersion="999999999", resourceVersionMatch="Exact"),
            get(SECRETS, resourceVersionMatch="Exact"),
            get(SECRETS, resourceVersion="0", resourceVersionMatch="Exact"),
            get(SECRETS, resourceVersion="1", resourceVersionMatch="Sometimes"),
            get(SECRETS, sendInitialEvents="true"),
            get(SECRETS, watch="true", sendInitialEvents="true"),
        ],
    ),
    Scenario(
        "an empty list is a list",
        [get(PODS), get("/api/v1/namespaces/$NS-none/pods"), get(PODS, resourceVersion="0")],
    ),
]
