"""get, describe, explain, events, and what a client learns of the server."""

from ..typed import Session
from .manifests import FILES

BEGIN = """
$ kubectl create -f node.yaml
$ kubectl patch node $NS --subresource=status --patch-file node-status.yaml
$ kubectl create -f pod.yaml -f pending.yaml
$ kubectl patch pod train --subresource=status --patch-file running.yaml
"""
END = """
$ kubectl delete node $NS
$ kubectl delete pods --all --grace-period=0 --force
"""

SESSIONS = [
    Session(
        "objects are shown in every form",
        BEGIN
        + """
$ kubectl get pods
$ kubectl get po train -o wide
$ kubectl get pods -o name
$ kubectl get pods -l app=train --show-labels
$ kubectl get pods -L app,team
$ kubectl get pods -l 'app in (train),!none' --no-headers
$ kubectl get pods --field-selector status.phase=Pending
$ kubectl get pods --sort-by=.metadata.name
$ kubectl get pods --chunk-size=1
$ kubectl get pods,nodes -l 'app in (train)' --show-kind
$ kubectl get pods -A -l app=train
$ kubectl get pod train -o yaml
$ kubectl get pod waits -o json
$ kubectl get pods -o jsonpath='{range .items[*]}{.metadata.name}={.status.phase}{"\\n"}{end}'
$ kubectl get pod train -o custom-columns=NAME:.metadata.name,GPUS:.spec.containers[*].resources.limits
$ kubectl get pod train -o go-template='{{.spec.nodeName}}'
$ kubectl get pod train -o yaml --show-managed-fields | grep manager
$ kubectl get node $NS
$ kubectl get node $NS -o wide
$ kubectl get nodes -l kubernetes.io/hostname=$NS -o jsonpath='{.items[0].status.allocatable}'
$ kubectl get all
$ kubectl get --raw /api/v1/namespaces/$NS/pods/none
$ kubectl get pod none
$ kubectl get pod none --ignore-not-found
$ kubectl get nonsense
$ kubectl get pods --field-selector foo=bar
$ kubectl get pods -l 'a b'
$ kubectl get configmaps none -o yaml
$ kubectl get -f pod.yaml
"""
        + END,
        FILES,
    ),
    Session(
        "objects are described with their events",
        BEGIN
        + """
$ kubectl create -f event.yaml
$ kubectl describe pod train
$ kubectl describe pod waits
$ kubectl describe node $NS | grep -v '(Total limits'
$ kubectl get events
$ kubectl get events -o wide
$ kubectl events
$ kubectl events --for pod/train --types=Warning
$ kubectl get events --field-selector involvedObject.name=train,type=Warning -o name
$ kubectl describe pod none
"""
        + END,
        FILES,
    ),
    Session(
        "every other kind is described",
        """
$ kubectl create -f deployment.yaml -f daemonset.yaml -f statefulset.yaml -f configmap.yaml -f budget.yaml
$ kubectl create -f policy.yaml -f gpunode.yaml
$ kubectl create secret generic key --from-literal=a=b
$ kubectl create role reader --verb=get,list --resource=pods,deployments.apps
$ kubectl create rolebinding reading --role=reader --serviceaccount=$NS:default --user=me --group=us
$ kubectl expose deployment web --port=80 --target-port=8080
$ kubectl describe deployment web
$ kubectl describe ds agent
$ kubectl describe sts store
$ kubectl create configmap one --from-literal=colour=red && kubectl describe cm one
$ kubectl describe secret key
$ kubectl describe role reader
$ kubectl describe rolebinding reading
$ kubectl describe service web
$ kubectl describe pdb keep
$ kubectl describe sa default
$ kubectl describe namespace $NS
$ kubectl describe clusterpolicy $NS
$ kubectl describe gpunode $NS
$ kubectl wait cm/kube-root-ca.crt --for=create --timeout=20s
$ kubectl get deploy,ds,sts,cm,secret,role,rolebinding,svc,pdb,sa
$ kubectl get deploy,ds,svc -o wide
$ kubectl get clusterpolicy,gpunode $NS
$ kubectl get gpunode $NS -o wide
$ kubectl delete deploy,ds,sts,svc --all
$ kubectl delete clusterpolicy,gpunode $NS
""",
        FILES,
    ),
    Session(
        "a watch shows what happens",
        """
$ kubectl create -f configmap.yaml
&4 kubectl get configmaps settings --watch --no-headers
&4 kubectl get configmaps --watch -l app=web -o name --output-watch-events
$ kubectl patch configmap settings --type=merge -p '{"data":{"more":"1"}}'
$ kubectl patch configmap settings --type=merge -p '{"data":{"yet-more":"1"}}'
$ kubectl delete configmap settings
""",
        FILES,
    ),
    Session(
        "a client learns what the server has",
        """
$ kubectl version -o json | grep -c '"minor": "36"'
$ kubectl cluster-info
$ kubectl api-resources --api-group=apps
$ kubectl api-resources --api-group=rbac.authorization.k8s.io --no-headers
$ kubectl api-resources --api-group=policy -o wide
$ kubectl api-resources --api-group=nvidia.com
$ kubectl api-resources --api-group=gpuready.dev -o wide
$ kubectl api-resources --api-group=coordination.k8s.io -o name
$ kubectl api-resources --namespaced=false --verbs=delete -o name | grep -x nodes
$ kubectl api-versions | grep -xE 'v1|apps/v1|batch/v1|policy/v1|coordination.k8s.io/v1|nvidia.com/v1'
$ kubectl get --raw /readyz
$ kubectl get --raw /livez
$ kubectl get --raw /version | grep -c gitVersion
$ kubectl top nodes
$ kubectl top pods
$ kubectl config view --minify -o jsonpath='{.contexts[0].context.namespace}'
""",
        FILES,
    ),
    Session(
        "fields are explained",
        """
$ kubectl create -f crd.yaml
$ kubectl wait crd/widgets.$NS.example.dev --for=condition=Established --timeout=20s
$ for i in $(seq 50); do kubectl explain widgets.$NS.example.dev > /dev/null 2>&1 && break; sleep 0.2; done
$ kubectl explain widgets.$NS.example.dev
$ kubectl explain widgets.spec --api-version=$NS.example.dev/v1
$ kubectl explain widgets.spec.parts --api-version=$NS.example.dev/v1
$ kubectl explain widgets --api-version=$NS.example.dev/v1 --recursive
$ kubectl explain clusterpolicies.spec.devicePlugin
$ kubectl explain gpunodes.status.chain
$ kubectl explain daemonset.spec.updateStrategy.rollingUpdate
$ kubectl explain pod.spec.containers.envFrom
$ kubectl explain pod.spec.nodeSelector
$ kubectl explain pods.status.podIPs --recursive
$ kubectl explain pod.spec.nope
$ kubectl explain nope
$ kubectl delete crd widgets.$NS.example.dev
""",
        FILES,
    ),
]
