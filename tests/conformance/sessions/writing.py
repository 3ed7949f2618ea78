"""create, apply, diff, edit, patch, replace, delete, and what is put on objects one by one."""

# ruff: noqa: E501  (commands are as long as they are)

from ..typed import Session
from .manifests import FILES

DEFINED = """
$ kubectl create -f crd.yaml
$ kubectl wait crd/widgets.$NS.example.dev --for=condition=Established --timeout=20s
"""
UNDEFINED = """
$ kubectl delete crd widgets.$NS.example.dev
"""

SESSIONS = [
    Session(
        "objects are made from flags",
        """
$ kubectl create configmap settings --from-literal=a=b --from-literal=c=d
$ kubectl create secret generic key --from-literal=a=b
$ kubectl create secret docker-registry pull --docker-server=r.example --docker-username=u --docker-password=p
$ kubectl create serviceaccount robot
$ kubectl create deployment web --image=nginx --replicas=2 --port=80
$ kubectl create service clusterip web --tcp=80:8080
$ kubectl create job once --image=cuda -- nvidia-smi
$ kubectl create cronjob nightly --image=cuda --schedule='0 3 * * *' -- nvidia-smi
$ kubectl create job by-hand --from=cronjob/nightly
$ kubectl create role reader --verb=get,list,watch --resource=pods --resource=pods/log
$ kubectl create rolebinding reading --role=reader --serviceaccount=$NS:robot
$ kubectl create clusterrole $NS --verb=get --resource=nodes --resource-name=a
$ kubectl create clusterrolebinding $NS --clusterrole=$NS --user=me
$ kubectl create quota most --hard=pods=10,requests.nvidia.com/gpu=4
$ kubectl create poddisruptionbudget keep --selector=app=web --min-available=1
$ kubectl create priorityclass $NS --value=1000 --description=urgent
$ kubectl create token robot --duration=10m | tr -cd . | wc -c
$ kubectl create token none
$ kubectl run one --image=cuda --labels=a=b --overrides='{"spec":{"schedulerName":"nobody"}}' -- sleep 1
$ kubectl run two --image=cuda --dry-run=client -o yaml
$ kubectl create deployment dry --image=nginx --dry-run=server -o yaml
$ kubectl create configmap settings
$ kubectl get cm settings -o jsonpath='{.data}'
$ kubectl get secret pull -o jsonpath='{.type}'
$ kubectl get deployment web -o jsonpath='{.spec.replicas} {.spec.template.spec.containers[0].ports}'
$ kubectl get cronjob,job
$ kubectl get resourcequota most -o jsonpath='{.spec.hard}'
$ kubectl get pdb
$ kubectl get priorityclass $NS
$ kubectl get clusterrole $NS -o yaml
$ kubectl get clusterrolebinding $NS -o wide
$ kubectl delete clusterrole/$NS clusterrolebinding/$NS priorityclass/$NS
$ kubectl delete deploy,svc,job,cronjob,pod,quota --all --grace-period=0 --force
$ kubectl create namespace $NS-more
$ kubectl create namespace $NS-more
$ kubectl delete namespace $NS-more
""",
        FILES,
    ),
    Session(
        "what was misspelt is refused or warned of",
        DEFINED
        + """
$ sed 's/image:/imgae:/' pending.yaml | kubectl create -f -
$ sed 's/size:/szie:/' widget.yaml | kubectl create -f -
$ sed 's/{size: 3}/{size: 3, extra: 1}/' widget.yaml | kubectl create -f -
$ sed 's/{size: 3}/{size: 3, extra: 1}/' widget.yaml | kubectl create --validate=warn -f -
$ sed 's/{size: 3}/{size: 3, extra: 1}/' widget.yaml | kubectl apply --validate=ignore -f -
$ sed 's/{size: 3}/{size: 3, label: huge}/' widget.yaml | kubectl apply -f -
$ sed 's/{size: 3}/{size: big}/' widget.yaml | kubectl apply -f -
$ sed 's/{colour: red/{colour: 5/' configmap.yaml | kubectl apply -f -
$ sed 's/kind: ConfigMap/kind: Nonsense/' configmap.yaml | kubectl apply -f -
$ echo 'a: [b' | kubectl apply -f -
$ echo '{"kind": "ConfigMap"}' | kubectl apply -f -
$ sed 's/name: settings/name: Bad_Name/' configmap.yaml | kubectl apply -f -
$ sed 's/nobody/nobody\\n  dnsPolicy: Never/' pending.yaml | kubectl apply -f -
$ kubectl create -f pending.yaml -n $NS-none
"""
        + UNDEFINED,
        FILES,
    ),
    Session(
        "apply changes what differs and keeps what others wrote",
        """
$ kubectl apply -f configmap.yaml
$ kubectl apply -f configmap.yaml
$ kubectl patch cm settings --type=merge -p '{"data":{"theirs":"1"}}'
$ sed 's/red/blue/; s/, size: "3"//' configmap.yaml | kubectl apply -f -
$ kubectl get cm settings -o jsonpath='{.data}'
$ kubectl apply view-last-applied cm settings
$ kubectl apply set-last-applied -f configmap.yaml
$ kubectl apply -f configmap.yaml --dry-run=server
$ kubectl apply -f configmap.yaml --dry-run=client
$ kubectl create configmap plain && kubectl create configmap plain --dry-run=client -o yaml | kubectl apply -f -
$ kubectl apply -f deployment.yaml
$ kubectl scale deployment web --replicas=5
$ sed 's/nginx:1/nginx:2/; s/value: "1"/value: "2"/' deployment.yaml | kubectl apply -f -
$ kubectl get deploy web -o jsonpath='{.spec.replicas} {.spec.template.spec.containers[0]}'
$ sed 's/matchLabels: {app: web}/matchLabels: {app: wub}/' deployment.yaml | kubectl apply -f -
$ kubectl diff -f deployment.yaml | grep '^[-+] '
$ kubectl apply -f deployment.yaml && kubectl diff -f deployment.yaml
$ kubectl apply -f deployment.yaml -f daemonset.yaml -f configmap.yaml
$ kubectl delete -f deployment.yaml -f daemonset.yaml -f configmap.yaml
$ kubectl delete -f configmap.yaml
$ kubectl delete -f configmap.yaml --ignore-not-found
""",
        FILES,
    ),
    Session(
        "apply prunes what is no longer said",
        """
$ kubectl create namespace $NS-pruned
$ kubectl apply -n $NS-pruned -f configmap.yaml
$ sed 's/name: settings/name: other/' configmap.yaml > other.yaml
$ kubectl apply -n $NS-pruned -f configmap.yaml -f other.yaml --prune -l app=web --prune-allowlist=core/v1/ConfigMap
$ kubectl apply -n $NS-pruned -f other.yaml --prune -l app=web --prune-allowlist=core/v1/ConfigMap
$ kubectl get cm -n $NS-pruned -l app=web -o name
$ kubectl delete namespace $NS-pruned
""",
        FILES,
    ),
    Session(
        "server-side apply knows who owns what",
        DEFINED
        + """
$ kubectl apply --server-side -f configmap.yaml
$ kubectl apply --server-side -f configmap.yaml
$ sed 's/red/blue/' configmap.yaml | kubectl apply --server-side --field-manager=zoe -f -
$ sed 's/red/blue/' configmap.yaml | kubectl apply --server-side --field-manager=zoe --force-conflicts -f -
$ kubectl apply --server-side -f configmap.yaml --dry-run=server
$ sed 's/red/blue/; s/, size: "3"//' configmap.yaml | kubectl apply --server-side -f -
$ kubectl get cm settings -o yaml --show-managed-fields
$ kubectl apply --server-side -f widget.yaml
$ kubectl patch widget one --type=merge -p '{"spec":{"size":5}}'
$ kubectl apply --server-side -f widget.yaml
$ kubectl apply --server-side -f widget.yaml --force-conflicts
$ kubectl diff --server-side -f widget.yaml
$ kubectl apply -f deployment.yaml
$ kubectl apply --server-side -f deployment.yaml
$ kubectl get deploy web -o jsonpath='{.metadata.annotations}'
$ kubectl get deploy web --show-managed-fields -o jsonpath='{range .metadata.managedFields[*]}{.manager} {.operation}{"\\n"}{end}'
$ kubectl delete deploy web
"""
        + UNDEFINED,
        FILES,
    ),
    Session(
        "objects are edited",
        DEFINED
        + """
$ kubectl create -f configmap.yaml -f widget.yaml
$ KUBE_EDITOR='sed -i s/red/green/' kubectl edit configmap settings
$ kubectl get cm settings -o jsonpath='{.data.colour}'
$ KUBE_EDITOR=true kubectl edit configmap settings
$ KUBE_EDITOR='sed -i /colour/d' kubectl edit cm settings -o json --save-config
$ kubectl get cm settings -o jsonpath='{.data}'
$ KUBE_EDITOR='sed -i s/size:.3/size:\\ 7/' kubectl edit widget one
$ kubectl get widget one -o jsonpath='{.spec}'
$ KUBE_EDITOR='sed -i s/size:.7/size:\\ 0/' kubectl edit widget one 2>&1 | head -3
$ KUBE_EDITOR='sed -i s/name:.settings/name:\\ other/' kubectl edit configmap settings 2>&1 | head -1
$ kubectl edit configmap none
"""
        + UNDEFINED,
        FILES,
    ),
    Session(
        "objects are patched in three ways and by subresource",
        DEFINED
        + """
$ kubectl create -f daemonset.yaml -f widget.yaml -f configmap.yaml
$ kubectl patch ds agent -p '{"spec":{"template":{"spec":{"containers":[{"name":"main","env":[{"name":"A","value":"B"}]}]}}}}'
$ kubectl patch ds agent -p '{"spec":{"template":{"spec":{"containers":[{"name":"side","image":"side:1"}]}}}}'
$ kubectl get ds agent -o jsonpath='{range .spec.template.spec.containers[*]}{.name} {.image} {.env}{"\\n"}{end}'
$ kubectl patch ds agent -p '{"spec":{"template":{"spec":{"containers":[{"name":"side","$patch":"delete"}]}}}}'
$ kubectl patch ds agent --type=merge -p '{"metadata":{"labels":{"a":"b"}}}'
$ kubectl patch ds agent --type=json -p '[{"op":"test","path":"/metadata/labels/a","value":"b"},{"op":"remove","path":"/metadata/labels/a"}]'
$ kubectl patch ds agent --type=json -p '[{"op":"test","path":"/metadata/labels/app","value":"b"}]'
$ kubectl patch ds agent --type=json -p '[{"op":"remove","path":"/metadata/labels/none"}]'
$ kubectl patch ds agent --type=json -p '{"not":"a list"}'
$ kubectl patch cm settings -p '{"data":{"colour":null}}'
$ kubectl patch cm settings -p '{"data":{}}'
$ kubectl patch cm settings --type=merge -p '{"metadata":{"name":"other"}}'
$ kubectl patch cm settings -p 'not json'
$ kubectl patch cm settings -p '{"data":{"size":3}}'
$ kubectl get cm settings -o jsonpath='{.data}'
$ kubectl patch wd one -p '{"spec":{"size":4}}'
$ kubectl patch wd one --type=merge -p '{"spec":{"size":4}}'
$ kubectl patch wd one --type=merge -p '{"spec":{"size":0}}'
$ kubectl patch wd one --subresource=status --type=merge -p '{"status":{"phase":"Ready"},"spec":{"size":9}}'
$ kubectl get wd one -o jsonpath='{.spec.size} {.status}'
$ kubectl patch wd one --subresource=none --type=merge -p '{}'
$ kubectl get wd one --subresource=status
$ kubectl delete ds agent
"""
        + UNDEFINED,
        FILES,
    ),
    Session(
        "objects are replaced",
        """
$ kubectl replace -f configmap.yaml
$ kubectl create -f configmap.yaml
$ sed 's/red/blue/' configmap.yaml | kubectl replace -f -
$ kubectl get cm settings -o jsonpath='{.data}'
$ kubectl get cm settings -o yaml > live.yaml && kubectl label cm settings new=1 && kubectl replace -f live.yaml
$ kubectl replace --force -f configmap.yaml
$ sed 's/, size: "3"//' configmap.yaml | kubectl replace --dry-run=server -f -
$ kubectl get cm settings -o jsonpath='{.data}'
$ kubectl create -f pending.yaml && sed 's/cuda:12/cuda:13/' pending.yaml | kubectl replace -f - 2>&1 | head -1
$ kubectl delete pod waits --grace-period=0 --force
""",
        FILES,
    ),
    Session(
        "objects are deleted one by one, by selector and with what they own",
        """
$ kubectl create configmap a && kubectl create configmap b && kubectl create configmap c
$ kubectl label configmap a b x=1
$ kubectl delete configmap a --dry-run=server
$ kubectl delete configmap a --dry-run=client
$ kubectl delete configmap -l x=1 --wait=false
$ kubectl delete configmap a
$ kubectl delete configmap c none
$ kubectl create configmap kept && kubectl patch cm kept -p '{"metadata":{"finalizers":["x.dev/keep"]}}'
$ kubectl delete cm kept --wait=false
$ kubectl delete cm kept --timeout=1s
$ kubectl get cm kept -o jsonpath='{.metadata.finalizers} {.metadata.deletionGracePeriodSeconds}'
$ kubectl patch cm kept --type=json -p '[{"op":"remove","path":"/metadata/finalizers"}]'
$ kubectl wait cm/kept --for=delete --timeout=20s
$ kubectl create configmap owner
$ kubectl create configmap child && OWNER=$(kubectl get cm owner -o jsonpath='{.metadata.uid}'); kubectl patch cm child --type=merge -p '{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"owner","uid":"'$OWNER'","blockOwnerDeletion":true}]}}'
$ kubectl delete cm owner --cascade=orphan
$ kubectl get cm child -o jsonpath='{.metadata.ownerReferences}'
$ kubectl create configmap owner
$ OWNER=$(kubectl get cm owner -o jsonpath='{.metadata.uid}'); kubectl patch cm child --type=merge -p '{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"owner","uid":"'$OWNER'","blockOwnerDeletion":true}]}}'
$ kubectl delete cm owner --cascade=foreground
$ kubectl wait cm/child --for=delete --timeout=20s
$ kubectl create configmap owner && kubectl create configmap child
$ OWNER=$(kubectl get cm owner -o jsonpath='{.metadata.uid}'); kubectl patch cm child --type=merge -p '{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"owner","uid":"'$OWNER'"}]}}'
$ kubectl delete cm owner --cascade=background
$ kubectl wait cm/child --for=delete --timeout=20s
$ kubectl create -f pending.yaml
$ kubectl delete pod waits --now
$ kubectl delete pods --all
$ kubectl delete pods --all -l a=b
$ kubectl delete nonsense --all
$ kubectl delete configmaps --field-selector metadata.name=d
$ kubectl create configmap d && kubectl delete --raw /api/v1/namespaces/$NS/configmaps/d > /dev/null && kubectl get cm d
""",
        FILES,
    ),
    Session(
        "labels and annotations are put on, kept and taken off",
        """
$ kubectl create -f configmap.yaml
$ kubectl label cm settings a=b
$ kubectl label cm settings a=b
$ kubectl label cm settings a=c
$ kubectl label cm settings a=c --overwrite
$ kubectl label cm settings none-
$ kubectl label cm settings a-
$ kubectl label cm settings 'a=b!c'
$ kubectl label cm settings 'a b=c'
$ kubectl label cm -l app=web batch=1
$ kubectl label cm settings --list | sort
$ kubectl annotate cm settings why=test
$ kubectl annotate cm settings why=other
$ kubectl annotate cm settings why=other --overwrite
$ kubectl annotate cm settings why-
$ kubectl annotate cm settings --list
$ kubectl label cm settings x=y --dry-run=server
$ kubectl label cm settings x=y --resource-version=1
$ kubectl label cm none x=y
$ kubectl get cm settings -o jsonpath='{.metadata.labels} {.metadata.annotations}'
""",
        FILES,
    ),
]
