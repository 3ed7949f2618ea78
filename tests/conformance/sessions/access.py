"""Who one is, what one may do, and what is refused."""

# ruff: noqa: E501  (commands are as long as they are)

from ..typed import Session
from .manifests import FILES

SESSIONS = [
    Session(
        "one asks who one is and what one may do",
        """
$ kubectl auth whoami
$ kubectl auth can-i delete nodes
$ kubectl auth can-i '*' '*' --all-namespaces
$ kubectl auth can-i get pods --as=me
$ kubectl auth can-i get pods --as=system:serviceaccount:$NS:default
$ kubectl auth whoami --as=me --as-group=us -o yaml
$ kubectl create role reader --verb=get,list --resource=pods --resource=pods/log
$ kubectl create rolebinding reading --role=reader --user=me
$ kubectl auth can-i get pods --as=me
$ kubectl auth can-i get pods/log --as=me
$ kubectl auth can-i get pods --subresource=status --as=me
$ kubectl auth can-i delete pods --as=me
$ kubectl auth can-i get pods --as=me -n default
$ kubectl auth can-i list configmaps --as=me
$ kubectl auth can-i get /version --as=me --as-group=system:authenticated
$ kubectl auth can-i get /nonsense --as=me
$ kubectl auth can-i --list --as=me --no-headers | grep pods
$ kubectl auth can-i get nonsense --as=me
""",
        FILES,
    ),
    Session(
        "what the rules do not allow is refused",
        """
$ kubectl get pods --as=me
$ kubectl get pod train --as=me
$ kubectl create configmap a --as=me
$ kubectl get nodes --as=me
$ kubectl get pods -A --as=me
$ kubectl get --raw /metrics --as=me
$ kubectl get clusterpolicies --as=me
$ kubectl create serviceaccount robot
$ kubectl create role writer --verb=create,get,patch --resource=configmaps
$ kubectl create rolebinding writing --role=writer --serviceaccount=$NS:robot
$ kubectl create configmap a --as=system:serviceaccount:$NS:robot
$ kubectl label configmap a x=y --as=system:serviceaccount:$NS:robot
$ kubectl delete configmap a --as=system:serviceaccount:$NS:robot
$ kubectl apply --server-side -f configmap.yaml --as=system:serviceaccount:$NS:robot
$ kubectl get pods --as=system:serviceaccount:$NS:robot
$ kubectl get cm a -o name --token=$(kubectl create token robot) --kubeconfig=/dev/null --server=$(kubectl config view -o jsonpath='{.clusters[0].cluster.server}') --insecure-skip-tls-verify -n $NS
$ kubectl get pods --token=nonsense --kubeconfig=/dev/null --server=$(kubectl config view -o jsonpath='{.clusters[0].cluster.server}') --insecure-skip-tls-verify
""",
        FILES,
    ),
    Session(
        "nobody gives away more than he has",
        """
$ kubectl create serviceaccount giver
$ kubectl create role giver --verb=create,get,patch --resource=roles.rbac.authorization.k8s.io,rolebindings.rbac.authorization.k8s.io
$ kubectl create rolebinding giver --role=giver --serviceaccount=$NS:giver
$ kubectl create role more --verb=get --resource=secrets --as=system:serviceaccount:$NS:giver
$ kubectl create role less --verb=get --resource=roles.rbac.authorization.k8s.io --as=system:serviceaccount:$NS:giver
$ kubectl create role plain --verb=get,list --resource=pods
$ kubectl create rolebinding plain --role=plain --user=me --as=system:serviceaccount:$NS:giver
$ kubectl create rolebinding less --role=less --user=me --as=system:serviceaccount:$NS:giver
$ kubectl create role binder --verb=get --resource=pods
$ kubectl patch role giver --type=json -p '[{"op":"add","path":"/rules/-","value":{"apiGroups":[""],"resources":["pods"],"verbs":["get"]}}]'
$ kubectl create rolebinding binder --role=binder --user=me --as=system:serviceaccount:$NS:giver
$ kubectl patch role binder --as=system:serviceaccount:$NS:giver --type=json -p '[{"op":"add","path":"/rules/0/verbs/-","value":"delete"}]'
""",
        FILES,
    ),
]
