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

{{- define "sked.agent" -}}
{{ include "sked.prefix" . }}-agent
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

{{- define "sked.agentSelector" -}}
control-plane: agent
{{- end -}}

{{- define "sked.agentPodLabels" -}}
{{ include "sked.agentSelector" . }}
app.kubernetes.io/name: sked
app.kubernetes.io/component: agent
{{- end -}}

{{- define "sked.agentLabels" -}}
{{ include "sked.agentPodLabels" . }}
{{ include "sked.helmLabels" . }}
{{- end -}}

{{/* Whether an agent is held to its own node's report. */}}
{{- define "sked.limitsAgents" -}}
{{- and .Values.agent.enabled .Values.agent.policy (semverCompare ">=1.30.0-0" .Capabilities.KubeVersion.Version) -}}
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
{{- with .Values.verification }}
{{- if ne .mode "off" }}
- --verification={{ .mode }}
{{- if or .files .configMap }}
- --trust-policy=/etc/sked/trust/policy.yaml
{{- end }}
{{- if .pullSecret }}
- --pull-secret=/etc/sked/pull/.dockerconfigjson
{{- end }}
{{- range $registry, $mirrors := .mirrors }}
{{- range $mirrors }}
- {{ printf "--registry-mirror=%s=%s" $registry . | quote }}
{{- end }}
{{- end }}
{{- range .insecureRegistries }}
- {{ printf "--insecure-registry=%s" . | quote }}
{{- end }}
{{- if .caFile }}
- --registry-ca-file=/etc/sked/trust/{{ .caFile }}
{{- end }}
{{- end }}
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

{{/* What an agent is started with. */}}
{{- define "sked.agentArguments" -}}
- --health-probe-bind-address=:{{ .Values.agent.health.port }}
{{- if .Values.agent.metrics.enabled }}
- --metrics-bind-address=:{{ .Values.agent.metrics.port }}
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
{{- if and .metrics.prometheusRule.enabled (not .metrics.enabled) -}}
{{- fail "metrics.prometheusRule: there are no metrics to alert on; set metrics.enabled=true" -}}
{{- end -}}
{{- if and .agent.metrics.podMonitor.enabled (not (and .agent.enabled .agent.metrics.enabled)) -}}
{{- fail "agent.metrics.podMonitor: there are no metrics to collect; set agent.enabled=true and agent.metrics.enabled=true" -}}
{{- end -}}
{{- if and .verification.files .verification.configMap -}}
{{- fail "verification: give the policy as files or as configMap, not as both" -}}
{{- end -}}
{{- if and .verification.files (not (hasKey .verification.files "policy.yaml")) -}}
{{- fail "verification.files: there is no policy.yaml among them" -}}
{{- end -}}
{{- if and (not .verification.files) (not .verification.configMap) (or .verification.secrets .verification.caFile) -}}
{{- fail "verification: secrets and caFile lie beside a policy; give one as files or as configMap" -}}
{{- end -}}
{{- if and .metrics.enabled (eq (int .metrics.port) (int .health.port)) -}}
{{- fail "metrics.port and health.port are the same; give each its own" -}}
{{- end -}}
{{- if and .agent.metrics.enabled (eq (int .agent.metrics.port) (int .agent.health.port)) -}}
{{- fail "agent.metrics.port and agent.health.port are the same; give each its own" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The volumes of the manager, each with the name, the place and the source; nothing where it needs none. */}}
{{- define "sked.volumes" -}}
{{- if and .Values.metrics.enabled .Values.metrics.certificateSecret }}
- name: metrics-certificate
  path: /etc/sked/metrics
  source:
    secret:
      secretName: {{ .Values.metrics.certificateSecret }}
{{- end }}
{{- with .Values.verification }}
{{- if and (ne .mode "off") (or .files .configMap) }}
- name: trust
  path: /etc/sked/trust
  source:
    projected:
      sources:
        - configMap:
            name: {{ .configMap | default (printf "%s-trust-policy" (include "sked.prefix" $)) }}
        {{- range .secrets }}
        - secret:
            name: {{ . }}
        {{- end }}
{{- end }}
{{- if ne .mode "off" }}
- name: tmp
  path: /tmp
  source:
    emptyDir:
      sizeLimit: 16Mi
{{- end }}
{{- if and (ne .mode "off") .pullSecret }}
- name: pull-secret
  path: /etc/sked/pull
  source:
    secret:
      secretName: {{ .pullSecret }}
{{- end }}
{{- end }}
{{- end -}}
