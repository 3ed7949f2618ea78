"""What an administrator does to nodes: taint, cordon, drain."""

# ruff: noqa: E501  (commands are as long as they are)

from ..typed import Session
from .manifests import FILES

SESSIONS = [
    Session(
        "a node is tainted, cordoned and drained",
        """
$ kubectl create -f node.yaml
$ kubectl taint node $NS gpu=true:NoSchedule
$ kubectl taint node $NS gpu=true:NoSchedule
$ kubectl taint node $NS gpu=false:NoSchedule --overwrite
$ kubectl taint node $NS gpu=x:Nonsense
$ kubectl get node $NS -o jsonpath='{.spec.taints}'
$ kubectl taint node $NS gpu-
$ kubectl taint node $NS gpu-
$ kubectl cordon $NS
$ kubectl cordon $NS
$ kubectl get node $NS
$ kubectl uncordon $NS
$ kubectl create -f pod.yaml
$ kubectl patch pod train --subresource=status --patch-file running.yaml
$ kubectl drain $NS
$ kubectl drain $NS --dry-run=client --force
$ kubectl drain $NS --dry-run=server --force
$ kubectl get pod train -o jsonpath='{.metadata.deletionTimestamp}'
$ kubectl drain $NS --force --grace-period=0 --timeout=20s
$ kubectl get pods
$ kubectl get node $NS
$ kubectl drain none
$ kubectl delete node $NS
""",
        FILES,
    ),
    Session(
        "a drain respects a disruption budget",
        """
$ kubectl create -f node.yaml -f pod.yaml -f budget.yaml
$ kubectl patch pod train --subresource=status --patch-file running.yaml
$ kubectl patch pdb keep --subresource=status --type=merge -p '{"status":{"observedGeneration":1,"currentHealthy":1,"desiredHealthy":1,"expectedPods":1,"disruptionsAllowed":0}}'
$ kubectl get pdb
$ kubectl drain $NS --force --grace-period=0 --timeout=1s
$ kubectl patch pdb keep --subresource=status --type=merge -p '{"status":{"observedGeneration":1,"currentHealthy":1,"desiredHealthy":0,"expectedPods":1,"disruptionsAllowed":1}}'
$ kubectl drain $NS --force --grace-period=0 --timeout=20s
$ kubectl get pdb keep -o jsonpath='{.status.disruptionsAllowed}'
$ kubectl delete node $NS
""",
        FILES,
    ),
    Session(
        "a drain spares pods of daemon sets and deletes where told",
        """
$ kubectl create -f node.yaml -f daemonset.yaml
$ OWNER=$(kubectl get ds agent -o jsonpath='{.metadata.uid}'); sed "s/labels: {app: train, team: vision}/ownerReferences: [{apiVersion: apps\\/v1, kind: DaemonSet, name: agent, uid: $OWNER, controller: true}]/" pod.yaml | kubectl create -f -
$ kubectl drain $NS --timeout=20s
$ kubectl drain $NS --ignore-daemonsets --timeout=20s
$ sed 's/name: train/name: plain/' pod.yaml | kubectl create -f -
$ kubectl drain $NS --ignore-daemonsets --disable-eviction --force --grace-period=0 --timeout=20s 2>&1 | sed 's/Warning: //' | tr ';' '\\n' | sed 's/^ //' | sort
$ kubectl get pods -o name
$ kubectl delete ds agent --cascade=orphan
$ kubectl delete pod train --grace-period=0 --force
$ kubectl delete node $NS
""",
        FILES,
    ),
]
