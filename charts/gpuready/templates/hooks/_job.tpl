{{/*
A Job of this chart: one run of our own image under its own short-lived account.
Called with (dict "root" $ "name" "crds" "events" "pre-install,pre-upgrade" "args" (list …) "deadline" 120).
*/}}
{{- define "gpuready.hookAnnotations" -}}
helm.sh/hook: {{ .events }}
helm.sh/hook-weight: {{ .weight | default "0" | quote }}
helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- end }}

{{- define "gpuready.hookLabels" -}}
app: gpuready-{{ .name }}
app.kubernetes.io/name: gpuready
app.kubernetes.io/instance: {{ .root.Release.Name | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
{{- end }}

{{- define "gpuready.hookMetadata" -}}
name: gpuready-{{ .name }}
labels: {{- include "gpuready.hookLabels" . | nindent 2 }}
annotations: {{- include "gpuready.hookAnnotations" . | nindent 2 }}
{{- end }}

{{- define "gpuready.hookJob" -}}
{{- $root := .root }}
apiVersion: batch/v1
kind: Job
metadata:
  {{- include "gpuready.hookMetadata" (merge (dict "weight" "1") .) | nindent 2 }}
  namespace: {{ $root.Release.Namespace | quote }}
spec:
  backoffLimit: 2
  activeDeadlineSeconds: {{ .deadline }}
  template:
    metadata:
      labels: {{- include "gpuready.hookLabels" . | nindent 8 }}
    spec:
      serviceAccountName: gpuready-{{ .name }}
      restartPolicy: Never
      {{- with include "gpuready.pullSecrets" $root }}{{ . | trim | nindent 6 }}{{ end }}
      {{- include "gpuready.placement" $root | trim | nindent 6 }}
      containers:
        - name: {{ .name }}
          image: {{ include "gpuready.image" $root | quote }}
          imagePullPolicy: {{ $root.Values.operator.imagePullPolicy }}
          command: [gpuready]
          args: {{- toYaml .args | nindent 12 }}
          {{- with include "gpuready.caEnv" $root }}
          env: {{- . | trim | nindent 12 }}
          {{- end }}
          securityContext: {{- include "gpuready.containerSecurity" $root | nindent 12 }}
          {{- with include "gpuready.caMounts" $root }}{{ . | trim | nindent 10 }}{{ end }}
      {{- with include "gpuready.caVolumes" $root }}{{ . | trim | nindent 6 }}{{ end }}
{{- end }}

{{- define "gpuready.hookAccount" -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  {{- include "gpuready.hookMetadata" . | nindent 2 }}
  namespace: {{ .root.Release.Namespace | quote }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  {{- include "gpuready.hookMetadata" . | nindent 2 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: gpuready-{{ .name }}
subjects:
  - kind: ServiceAccount
    name: gpuready-{{ .name }}
    namespace: {{ .root.Release.Namespace | quote }}
{{- end }}
