"""helm: a chart with definitions, hooks, a custom resource and a workload, from lint to uninstall."""

# ruff: noqa: E501  (commands are as long as they are)

from ..typed import Session
from .manifests import DEFINITION, RUNNING, WIDGET

CHART = """\
apiVersion: v2
name: sample
description: A chart for tests
version: 0.1.0
appVersion: "1.0"
"""
VALUES = """\
colour: red
daemonSet: false
schema: 1
"""
SETTINGS = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}-settings
  labels: {app.kubernetes.io/managed-by: {{ .Release.Service }}}
data:
  colour: {{ .Values.colour | quote }}
  revision: {{ .Release.Revision | quote }}
  {{- if .Capabilities.APIVersions.Has "apps/v1/DaemonSet" }}
  hasDaemonSets: "yes"
  {{- end }}
  {{- with lookup "v1" "ServiceAccount" .Release.Namespace "default" }}
  found: {{ .metadata.name }}
  {{- end }}
"""
SERVICE = """\
apiVersion: v1
kind: Service
metadata: {name: {{ .Release.Name }}}
spec: {selector: {app: sample}, ports: [{port: 80}]}
"""
ACCESS = """\
apiVersion: v1
kind: ServiceAccount
metadata: {name: {{ .Release.Name }}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: {{ .Release.Name }}}
rules: [{apiGroups: [""], resources: [configmaps], verbs: [get]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: {{ .Release.Name }}}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: {{ .Release.Name }}}
subjects: [{kind: ServiceAccount, name: {{ .Release.Name }}, namespace: {{ .Release.Namespace }}}]
"""
DAEMON_SET = """\
{{- if .Values.daemonSet }}
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: {{ .Release.Name }}}
spec:
  selector: {matchLabels: {app: sample}}
  template:
    metadata: {labels: {app: sample}}
    spec:
      nodeSelector: {tier: none}
      containers: [{name: main, image: "sample:1"}]
{{- end }}
"""
HOOK = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}-before
  annotations:
    helm.sh/hook: pre-install,pre-upgrade
    helm.sh/hook-weight: "-5"
    helm.sh/hook-delete-policy: before-hook-creation
data: {colour: {{ .Values.colour | quote }}}
"""
TEST = """\
apiVersion: v1
kind: Pod
metadata:
  name: {{ .Release.Name }}-test
  annotations: {helm.sh/hook: test}
spec:
  schedulerName: nobody
  restartPolicy: Never
  containers: [{name: main, image: "sample:1"}]
"""
WIDGETS = WIDGET.replace("name: one", "name: {{ .Release.Name }}").replace("$NS.example", "$NS.example")
NOTES = "It is {{ .Values.colour }} in {{ .Release.Namespace }}.\n"

FILES = {
    "sample/Chart.yaml": CHART,
    "sample/values.yaml": VALUES,
    "sample/crds/widgets.yaml": DEFINITION,
    "sample/templates/settings.yaml": SETTINGS,
    "sample/templates/service.yaml": SERVICE,
    "sample/templates/access.yaml": ACCESS,
    "sample/templates/daemonset.yaml": DAEMON_SET,
    "sample/templates/before.yaml": HOOK,
    "sample/templates/test.yaml": TEST,
    "sample/templates/widget.yaml": WIDGETS,
    "sample/templates/NOTES.txt": NOTES,
    "running.yaml": RUNNING.replace("Running", "Succeeded"),
    "ready.yaml": "status: {observedGeneration: 1, desiredNumberScheduled: 0, currentNumberScheduled: 0, "
    "numberMisscheduled: 0, numberReady: 0, updatedNumberScheduled: 0}\n",
}

SESSIONS = [
    Session(
        "a chart lives from its first installation to its last trace",
        """
$ helm lint sample
$ helm template rel sample --show-only templates/settings.yaml
$ helm install rel sample --dry-run=server | grep -A3 'colour:'
$ helm install rel sample --wait --timeout 30s
$ helm install rel sample
$ helm list
$ helm status rel | sed '/^RESOURCES/,$d'
$ kubectl get cm,svc,sa,role,rolebinding -l '!kubernetes.io/metadata.name' -o name | grep rel
$ kubectl get widgets.$NS.example.dev
$ kubectl get cm rel-settings -o yaml
$ kubectl get secrets --field-selector type=helm.sh/release.v1 -o name
$ helm get manifest rel | grep -c '^kind:'
$ helm get values rel --all
$ helm get hooks rel | grep '^kind'
$ helm get notes rel
$ helm upgrade rel sample --set colour=blue --wait --timeout 30s
$ kubectl get cm rel-settings rel-before -o jsonpath='{.items[*].data.colour}'
$ helm get values rel
$ kubectl label cm rel-settings mine=1
$ helm upgrade --install rel sample --set colour=green
$ kubectl get cm rel-settings -o jsonpath='{.metadata.labels} {.data.colour}'
$ helm history rel | cut -f1,3,4,5,6
$ helm rollback rel 1 --wait --timeout 30s
$ kubectl get cm rel-settings -o jsonpath='{.data.colour}'
$ helm history rel -o json | tr ',' '\\n' | grep description
$ helm upgrade rel sample --set colour=black --dry-run=server | grep -A3 colour:
$ helm list --all-namespaces --filter '^rel$' | grep -c $NS
$ helm get manifest none
$ helm uninstall rel --wait --timeout 30s
$ helm list
$ helm status rel
$ kubectl get cm,svc,sa,role,rolebinding,secret -o name | grep rel
$ kubectl get crd widgets.$NS.example.dev -o name
$ kubectl delete crd widgets.$NS.example.dev
$ kubectl delete cm rel-before
""",
        FILES,
    ),
    Session(
        "a release waits for its workload and tests itself",
        """
$ (helm upgrade --install rel sample --set daemonSet=true --wait --timeout 40s > out 2>&1; echo "ended $?" >> out) & kubectl wait ds/rel --for=create --timeout=30s && kubectl patch ds rel --subresource=status --type=merge --patch-file ready.yaml; wait; grep -E 'STATUS|REVISION|ended' out
$ (helm test rel --timeout 40s > out 2>&1; echo "ended $?" >> out) & kubectl wait pod/rel-test --for=create --timeout=30s && kubectl patch pod rel-test --subresource=status --patch-file running.yaml; wait; grep -E 'Phase|TEST SUITE|ended' out
$ helm upgrade rel sample --wait --timeout 30s | grep -E 'STATUS|REVISION'
$ kubectl get ds rel
$ helm upgrade rel sample --set daemonSet=true --set colour=blue --wait --timeout 30s | grep -E 'STATUS|REVISION'
$ helm list --no-headers | cut -f1,3,5
$ helm uninstall rel --keep-history
$ helm list --uninstalled --short
$ helm uninstall rel
$ kubectl delete crd widgets.$NS.example.dev
$ kubectl delete pod rel-test --grace-period=0 --force
""",
        FILES,
    ),
    Session(
        "a release is refused when it would take what is not its own",
        """
$ kubectl create configmap rel-settings --from-literal=colour=mine
$ helm install rel sample --skip-crds 2>&1 | head -1
$ rm sample/templates/widget.yaml
$ helm install rel sample --skip-crds
$ helm list --short
$ kubectl get cm rel-settings -o jsonpath='{.data}'
$ kubectl label cm rel-settings app.kubernetes.io/managed-by=Helm
$ kubectl annotate cm rel-settings meta.helm.sh/release-name=rel meta.helm.sh/release-namespace=$NS
$ helm upgrade --install rel sample --skip-crds | grep STATUS
$ kubectl get cm rel-settings -o jsonpath='{.data.colour}'
$ kubectl apply --server-side --field-manager=somebody --force-conflicts -f - <<END
apiVersion: v1
kind: ConfigMap
metadata: {name: rel-settings}
data: {colour: black}
END
$ helm upgrade rel sample --skip-crds 2>&1 | head -3
$ kubectl get cm rel-settings -o jsonpath='{.data.colour}'
$ helm uninstall rel
$ helm install stuck sample --skip-crds --set daemonSet=true --wait --timeout 2s 2>&1 | tail -1
$ helm list --failed --short
$ helm uninstall stuck
""",
        FILES,
    ),
]
