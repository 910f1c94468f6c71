{{- define "gateway.name" -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 52 | trimSuffix "-" -}}
{{- end -}}

{{- define "gateway.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "gateway.labels" -}}
{{ include "gateway.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- define "gateway.journals" -}}
{{- if and .Values.persistence.enabled (not .Values.config.gateway.kafka) -}}yes{{- end -}}
{{- end -}}

{{- define "gateway.tokens" -}}
{{- if not .Values.insecure -}}{{ .Values.tokens.existingSecret | default (include "gateway.name" .) }}{{- end -}}
{{- end -}}

{{- define "gateway.config" -}}
{{- $config := deepCopy .Values.config -}}
{{- if include "gateway.tokens" . -}}
{{- $_ := set $config.gateway "tokens" "/etc/otel-evals-tokens/tokens" -}}
{{- end -}}
{{- if include "gateway.journals" . -}}
{{- $_ := set $config "journal" "/var/lib/otel-evals/journal" -}}
{{- end -}}
{{- toYaml $config -}}
{{- end -}}
