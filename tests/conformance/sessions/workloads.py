"""rollout, scale, set, wait, expose. Nobody works on these workloads: their status is written by hand."""

# ruff: noqa: E501  (commands are as long as they are)

from ..typed import Session
from .manifests import FILES, REVISION

SESSIONS = [
    Session(
        "rollouts are followed, restarted and undone",
        """
$ kubectl create -f daemonset.yaml -f deployment.yaml
$ kubectl rollout history ds/agent
$ kubectl patch ds agent --subresource=status --type=merge -p '{"status":{"observedGeneration":1,"desiredNumberScheduled":2,"currentNumberScheduled":2,"numberMisscheduled":0,"numberReady":2,"updatedNumberScheduled":2,"numberAvailable":2}}'
$ kubectl rollout status ds/agent --timeout=20s
$ kubectl get ds agent
$ kubectl rollout restart ds/agent
$ kubectl get ds agent -o jsonpath='{.spec.template.metadata.annotations}' | tr -d '0-9'
$ kubectl rollout status ds/agent --watch=false
$ OWNER=$(kubectl get ds agent -o jsonpath='{.metadata.uid}'); sed "s/[$]UID/$OWNER/" revision.yaml | kubectl create -f -
$ kubectl rollout history ds/agent
$ kubectl rollout history ds/agent --revision=1
$ kubectl rollout undo ds/agent --to-revision=1
$ kubectl get ds agent -o jsonpath='{.spec.template.spec.containers[0].image}'
$ kubectl rollout history deploy/web
$ kubectl rollout pause deploy/web
$ kubectl rollout restart deploy/web
$ kubectl rollout resume deploy/web
$ kubectl patch deploy web --subresource=status --type=merge -p '{"status":{"observedGeneration":3,"replicas":2,"updatedReplicas":2,"readyReplicas":1,"availableReplicas":1,"unavailableReplicas":1}}'
$ kubectl rollout status deploy/web --timeout=1s
$ kubectl get deploy web
$ kubectl rollout undo deploy/web
$ kubectl delete ds,deploy --all
""",
        {**FILES, "revision.yaml": REVISION},
    ),
    Session(
        "workloads are scaled and changed in part",
        """
$ kubectl create -f deployment.yaml -f statefulset.yaml -f crd.yaml
$ kubectl wait crd/widgets.$NS.example.dev --for=condition=Established --timeout=20s
$ kubectl create -f widget.yaml
$ kubectl scale deployment web --replicas=3
$ kubectl scale deployment web --current-replicas=1 --replicas=4
$ kubectl scale deployment web --replicas=-1
$ kubectl scale sts/store deploy/web --replicas=0
$ kubectl scale -f deployment.yaml --replicas=1
$ kubectl scale widget one --replicas=7
$ kubectl get widget one -o jsonpath='{.spec.size}'
$ kubectl create configmap none && kubectl scale configmap none --replicas=1
$ kubectl get deployment web --subresource=scale
$ kubectl get deployment web --subresource=scale -o yaml
$ kubectl patch deployment web --subresource=scale --type=merge -p '{"spec":{"replicas":6}}'
$ kubectl get widget one --subresource=scale -o json
$ kubectl get deployment web -o jsonpath='{.spec.replicas} {.metadata.generation}'
$ kubectl get deploy web --show-managed-fields -o jsonpath='{range .metadata.managedFields[*]}{.manager} {.operation} {.subresource}{"\\n"}{end}'
$ kubectl set image deployment/web main=nginx:9
$ kubectl set env deployment/web B=2 A-
$ kubectl set env deployment/web --list
$ kubectl set resources deployment/web --limits=cpu=1,memory=1Gi
$ kubectl set serviceaccount deployment/web robot
$ kubectl get deploy web -o jsonpath='{.spec.template.spec.containers} {.spec.template.spec.serviceAccountName}'
$ kubectl expose deployment web --port=80 --name=front
$ kubectl get service front -o jsonpath='{.spec.selector} {.spec.ports}'
$ kubectl autoscale deployment web --min=1 --max=3 --cpu-percent=50 --dry-run=client -o name
$ kubectl delete deploy,sts,svc --all
$ kubectl delete crd widgets.$NS.example.dev
""",
        FILES,
    ),
    Session(
        "one waits for conditions, values and ends",
        """
$ kubectl create -f pending.yaml -f configmap.yaml
$ kubectl wait pod/waits --for=condition=Ready --timeout=1s
$ kubectl patch pod waits --subresource=status --patch-file running.yaml
$ kubectl wait pod/waits --for=condition=Ready --timeout=20s
$ kubectl wait pod -l app=waits --for=condition=Ready=True --timeout=20s
$ kubectl wait pod/waits --for=jsonpath='{.status.phase}'=Running --timeout=20s
$ kubectl wait cm/settings --for=jsonpath='{.data.colour}'=red --timeout=20s
$ kubectl wait cm/settings --for=jsonpath='{.data.colour}'=blue --timeout=1s
$ kubectl wait cm/later --for=create --timeout=20s & sleep 0.3; kubectl create cm later > /dev/null; wait
$ kubectl wait cm/none --for=delete --timeout=20s
$ kubectl wait cm/none --for=condition=Ready --timeout=1s
$ kubectl delete pod waits --grace-period=0 --force
""",
        FILES,
    ),
]
