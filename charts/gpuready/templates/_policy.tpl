{{/*
The ClusterPolicy's spec: every block of the values as it stands, then the few places where value and field
differ. Called with the root context; YAML out.
*/}}
{{- define "gpuready.policySpec" -}}
{{- $spec := dict "operator" (include "gpuready.policyOperator" . | fromYaml) }}
{{- range $block := .Files.Get "files/blocks.yaml" | fromYamlArray }}
{{- $_ := set $spec $block (deepCopy (index $.Values $block | default dict)) }}
{{- end }}

{{- /* The chart writes this ConfigMap itself: the policy only names it. */}}
{{- range $block := list "devicePlugin" "migManager" "dcgmExporter" }}
{{- with index $spec $block "config" }}
{{- $_ := set (index $spec $block) "config" (omit . "create" "data") }}
{{- end }}
{{- end }}

{{- /* The field holds text: a number or a percentage. */}}
{{- with $spec.daemonsets.rollingUpdate }}
{{- $_ := set . "maxUnavailable" (toString .maxUnavailable) }}
{{- end }}

{{- $_ := set $spec "driver" (include "gpuready.policyDriver" . | fromYaml) }}
{{- $compact := include "gpuready.compact" $spec | fromYaml }}
{{- if eq "" (toString $spec.migManager.config.default) }}
{{- /* The one place where "" is not the same as nothing: nodes without a label are left alone. */}}
{{- $_ := set $compact.migManager "config" (merge (dict "default" "") ($compact.migManager.config | default dict)) }}
{{- end }}
{{- toYaml $compact }}
{{- end }}


{{/* Everything else under `operator` is the Deployment's. */}}
{{- define "gpuready.policyOperator" -}}
{{- $operator := pick .Values.operator "runtimeClass" "metrics" }}
{{- if .Values.operator.use_ocp_driver_toolkit }}
{{- $_ := set $operator "use_ocp_driver_toolkit" true }}
{{- end }}
{{- toYaml $operator }}
{{- end }}


{{- define "gpuready.policyDriver" -}}
{{- $driver := omit (deepCopy .Values.driver) "nvidiaDriverCRD" }}
{{- $_ := set $driver "useNvidiaDriverCRD" .Values.driver.nvidiaDriverCRD.enabled }}
{{- with $driver.upgradePolicy }}
{{- $policy := omit . "gpuPodDeletion" }}
{{- $_ := set $policy "podDeletion" .gpuPodDeletion }}
{{- $_ := set $driver "upgradePolicy" $policy }}
{{- end }}
{{- if not $driver.certConfig.name }}
{{- $_ := set $driver "certConfig" (dict "name" .Values.gpuready.certConfig.name) }}
{{- end }}
{{- toYaml $driver }}
{{- end }}


{{/* A map without what says nothing: null, "", [], {}. */}}
{{- define "gpuready.compact" -}}
{{- $out := dict }}
{{- range $key, $value := . }}
{{- if kindIs "map" $value }}
{{- $inner := include "gpuready.compact" $value | fromYaml }}
{{- if $inner }}{{ $_ := set $out $key $inner }}{{ end }}
{{- else if not (or (kindIs "invalid" $value) (eq "" (toString $value)) (and (kindIs "slice" $value) (not $value))) }}
{{- $_ := set $out $key $value }}
{{- end }}
{{- end }}
{{- toYaml $out }}
{{- end }}
