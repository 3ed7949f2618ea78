{{/* Names and labels. */}}

{{- define "gpuready.selectorLabels" -}}
app: gpu-operator
app.kubernetes.io/name: gpuready
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{- define "gpuready.labels" -}}
{{ include "gpuready.selectorLabels" . }}
app.kubernetes.io/component: gpu-operator
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{/* The operator's image, and with it that of every operand of ours: repository/image:version or @digest. */}}
{{- define "gpuready.image" -}}
{{- $operator := .Values.operator }}
{{- $name := $operator.image }}
{{- with $operator.repository | default .Values.gpuready.registry }}
{{- $name = printf "%s/%s" (trimSuffix "/" .) $operator.image }}
{{- end }}
{{- $version := $operator.version | default .Chart.AppVersion }}
{{- printf "%s%s%s" $name (hasPrefix "sha256:" $version | ternary "@" ":") $version }}
{{- end }}

{{- define "gpuready.pullSecrets" -}}
{{- with concat (.Values.operator.imagePullSecrets | default list) (.Values.gpuready.imagePullSecrets | default list) | uniq | compact }}
imagePullSecrets:
{{- range . }}
  - name: {{ . | quote }}
{{- end }}
{{- end }}
{{- end }}

{{/* Where the operator and the Jobs of this chart may run. */}}
{{- define "gpuready.placement" -}}
{{- with .Values.operator.priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
{{- with .Values.operator.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.operator.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.operator.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "gpuready.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
runAsNonRoot: true
runAsUser: 65532
capabilities:
  drop: [ALL]
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{/* The site's CA for our own containers; operands get it from the operator (spec.gpuready.certConfig). */}}
{{- define "gpuready.caEnv" -}}
{{- if .Values.gpuready.certConfig.name }}
- name: SSL_CERT_FILE
  value: /etc/gpuready/ca/ca-bundle.crt
{{- end }}
{{- end }}

{{- define "gpuready.caMounts" -}}
{{- if .Values.gpuready.certConfig.name }}
volumeMounts:
  - name: gpuready-ca
    mountPath: /etc/gpuready/ca
    readOnly: true
{{- end }}
{{- end }}

{{- define "gpuready.caVolumes" -}}
{{- with .Values.gpuready.certConfig.name }}
volumes:
  - name: gpuready-ca
    configMap:
      name: {{ . | quote }}
{{- end }}
{{- end }}
