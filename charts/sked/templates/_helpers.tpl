{{/* What all names begin with: `sked` for the release sked, as in the kustomize installation. */}}
{{- define "sked.prefix" -}}
{{- $name := .Release.Name -}}
{{- if not (contains .Chart.Name $name) -}}
{{- $name = printf "%s-%s" $name .Chart.Name -}}
{{- end -}}
{{- /* The longest name is this and -controller-manager-metrics-service, and a Service's name has 63 characters at most. */ -}}
{{- $name | trunc 28 | trimSuffix "-" -}}
{{- end -}}

{{- define "sked.manager" -}}
{{ include "sked.prefix" . }}-controller-manager
{{- end -}}

{{- define "sked.metricsService" -}}
{{ include "sked.manager" . }}-metrics-service
{{- end -}}

{{- define "sked.serviceAccount" -}}
{{- .Values.serviceAccount.name | default (include "sked.manager" .) -}}
{{- end -}}

{{- define "sked.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ .tag }}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "sked.metricsPortName" -}}
{{ ternary "https" "http" .Values.metrics.secure }}
{{- end -}}

{{- define "sked.helmLabels" -}}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "sked.labels" -}}
app.kubernetes.io/name: sked
{{ include "sked.helmLabels" . }}
{{- end -}}

{{- define "sked.managerLabels" -}}
control-plane: controller-manager
{{ include "sked.labels" . }}
{{- end -}}

{{- define "sked.selector" -}}
control-plane: controller-manager
{{- end -}}

{{- define "sked.subject" -}}
- kind: ServiceAccount
  name: {{ include "sked.serviceAccount" . }}
  namespace: {{ .Release.Namespace }}
{{- end -}}

{{/* What the manager is started with. A flag at the manager's own default is left out. */}}
{{- define "sked.arguments" -}}
{{- with .Values.metrics }}
{{- if .enabled }}
- --metrics-bind-address=:{{ .port }}
{{- if not .secure }}
- --metrics-secure=false
{{- end }}
{{- if .certificateSecret }}
- --metrics-cert-path=/etc/sked/metrics
{{- end }}
{{- end }}
{{- end }}
{{- if .Values.leaderElection }}
- --leader-elect
{{- end }}
- --health-probe-bind-address=:{{ .Values.health.port }}
{{- range .Values.watchNamespaces }}
- --namespace={{ . }}
{{- end }}
{{- if ne (int .Values.priorityCeiling) 0 }}
- --priority-ceiling={{ int .Values.priorityCeiling }}
{{- end }}
{{- if ne (int .Values.workers) 16 }}
- --workers={{ .Values.workers }}
{{- end }}
{{- if ne .Values.logLevel "info" }}
- --log-level={{ .Values.logLevel }}
{{- end }}
{{- if ne .Values.logFormat "text" }}
- --log-format={{ .Values.logFormat }}
{{- end }}
{{- end -}}

{{/* Values that are fine one by one and make no sense together. */}}
{{- define "sked.check" -}}
{{- with .Values -}}
{{- if and (gt (int .replicas) 1) (not .leaderElection) -}}
{{- fail "replicas: several managers without leaderElection would undo each other's work; set leaderElection=true or replicas=1" -}}
{{- end -}}
{{- if and (not .serviceAccount.create) (not .serviceAccount.name) -}}
{{- fail "serviceAccount: with create=false, name the account that the manager runs as: serviceAccount.name" -}}
{{- end -}}
{{- if and .metrics.certificateSecret (not .metrics.secure) -}}
{{- fail "metrics.certificateSecret: metrics that are not served over TLS have no certificate; set metrics.secure=true" -}}
{{- end -}}
{{- if and .metrics.serviceMonitor.enabled (not .metrics.enabled) -}}
{{- fail "metrics.serviceMonitor: there are no metrics to collect; set metrics.enabled=true" -}}
{{- end -}}
{{- if and .metrics.enabled (eq (int .metrics.port) (int .health.port)) -}}
{{- fail "metrics.port and health.port are the same; give each its own" -}}
{{- end -}}
{{- end -}}
{{- end -}}
