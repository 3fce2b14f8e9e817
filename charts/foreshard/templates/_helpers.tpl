{{- define "foreshard.name" -}}
{{- .Values.nameOverride | default .Chart.Name | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- /* The release's name, with the chart's unless it is in it already. */}}
{{- define "foreshard.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" }}
{{- else if contains (include "foreshard.name" .) .Release.Name }}
{{- .Release.Name | trunc 63 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "foreshard.name" .) | trunc 63 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- /* What selects the operator's pods. Never changes, so no version is in it. */}}
{{- define "foreshard.selector" -}}
app.kubernetes.io/name: {{ include "foreshard.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: operator
{{- end }}

{{- define "foreshard.labels" -}}
{{ include "foreshard.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/part-of: foreshard
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "foreshard.serviceAccount" -}}
{{- if .Values.serviceAccount.create }}
{{- .Values.serviceAccount.name | default (include "foreshard.fullname" .) }}
{{- else }}
{{- required "serviceAccount.name: name the existing ServiceAccount, or set serviceAccount.create" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{- define "foreshard.subject" -}}
- kind: ServiceAccount
  name: {{ include "foreshard.serviceAccount" . }}
  namespace: {{ .Release.Namespace }}
{{- end }}
