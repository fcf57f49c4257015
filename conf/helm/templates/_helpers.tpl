{{- /* What the services are, and what of it follows from the values: how each starts, stops and is probed, its ports, its
volumes, and its settings. */ -}}
{{- define "mutation-quota.services" -}}
{{- $settings := .Values.settings -}}
{{- $gateway := $settings.gateway | default dict -}}
{{- $applier := $settings.applier | default dict -}}
{{- $root := $settings.storage.root -}}
{{- $claim := dict "claimName" (.Values.storage.existingClaim | default .Release.Name) -}}
{{- $data := dict "name" "data" "path" $root "writable" true "volume" (dict "persistentVolumeClaim" $claim) -}}
{{- $volumes := ternary (list $data) list (hasPrefix "/" $root) | toJson -}}
enforce:
  args: [enforce]
  standby: true # one process decides, and the others wait with a warm Spark until it has stopped
  grace: 90 # time for the current batch, and for stopping Spark
  storage: true
  volumes: {{ $volumes }}
audit:
  args: [audit]
  single: true # only one process at a time can use a storage root
  grace: 90
  storage: true
  volumes: {{ $volumes }}
applier:
  args: [applier]
  single: true # only the one started last is active
  grace: {{ add 30 (ceil ($applier.timeout_seconds | default 60)) }} # time for the current call to the cluster
push:
  args: [quotas, push, --follow, --yes]
  grace: 90
observe:
  args: [observe, follow]
  single: true
  grace: 60 # time for the current transaction
dashboard:
  args: [dashboard]
  port: {{ dig "port" 8599 ($settings.dashboard | default dict) }}
  grace: 30
  volumes:
    - {name: token, path: /run/secrets/dashboard, volume: {secret: {secretName: {{ .Values.dashboard.tokenSecret }}}}}
  settings:
    dashboard: {address: 0.0.0.0, token_file: /run/secrets/dashboard/token}
gateway:
  args: [gateway]
  preStop: 5 # seconds: it listens until the Service sends no new connections
  grace: {{ add 35 (ceil ($gateway.decision_timeout_seconds | default 10)) }} # preStop, a decision, the broker's answer (20 s), and 10 s
  quickProbes: true # its Service must not send connections to a pod that is not ready
  listens: [{{ range $i, $listener := $gateway.listeners }}{{ if $i }}, {{ end }}{{ splitList "=" $listener | first }}{{ end }}]
  {{- with .Values.gateway }}
  volumes:
    {{- with .tlsSecret }}
    - {name: tls, path: /run/secrets/tls, volume: {secret: {secretName: {{ . }}}}}
    {{- end }}
    {{- with .clientsCA.secret }}
    - {name: clients-ca, path: /run/secrets/clients-ca, volume: {secret: {secretName: {{ . }}}}}
    {{- end }}
    {{- with .issuerSecret }}
    - {name: issuer, path: /run/secrets/issuer, volume: {secret: {secretName: {{ . }}}}}
    {{- end }}
  settings:
    gateway:
      address: 0.0.0.0
      advertised_host: {{ $.Release.Name }}-gateway.{{ $.Release.Namespace }}.svc
      {{- if .tlsSecret }}
      ssl_certificate_location: /run/secrets/tls/tls.crt
      ssl_key_location: /run/secrets/tls/tls.key
      {{- end }}
      {{- if .clientsCA.secret }}
      ssl_client_auth: required
      ssl_ca_location: /run/secrets/clients-ca/{{ .clientsCA.key }}
      {{- end }}
      {{- if .issuerSecret }}
      ssl_issuer_certificate_location: /run/secrets/issuer/tls.crt
      ssl_issuer_key_location: /run/secrets/issuer/tls.key
      {{- end }}
  {{- end }}
{{- end }}

{{- /* The services that read a section, for those that not all of them read. */ -}}
{{- define "mutation-quota.readers" -}}
applier: [applier]
audit: [audit, enforce]
dashboard: [dashboard]
enforce: [enforce]
gateway: [gateway]
observe: [observe]
repeats: [dashboard, enforce]
spark: [audit, enforce]
storage: [audit, enforce]
{{- end }}

{{- /* The settings of a service as TOML, of (root, name, service, values): what follows from the values, then the user's.
Not by toToml, which makes 9404 of a values file 9404.0. */ -}}
{{- define "mutation-quota.settings" -}}
{{- $kafka := dict -}}
{{- if .root.Values.brokersCA.secret }}{{ $_ := set $kafka "ssl_ca_location" (printf "/run/secrets/brokers-ca/%s" .root.Values.brokersCA.key) }}{{ end -}}
{{- with .values.username }}{{ $_ := set $kafka "sasl_username" . }}{{ $_ := set $kafka "sasl_password" "file:/run/secrets/kafka/password" }}{{ end -}}
{{- $merged := dict -}}
{{- range $layer := list (dict "kafka" $kafka "metrics" (dict "address" "0.0.0.0")) (.service.settings | default dict) .root.Values.settings -}}
{{- range $section, $keys := $layer -}}
{{- $known := get $merged $section | default dict -}}
{{- range $key, $value := $keys }}{{ $_ := set $known $key $value }}{{ end -}}
{{- $_ := set $merged $section $known -}}
{{- end -}}
{{- end -}}
{{- range $section, $readers := include "mutation-quota.readers" . | fromYaml -}}
{{- if not (has $.name $readers) }}{{ $_ := unset $merged $section }}{{ end -}}
{{- end -}}
{{- range $section, $keys := $merged }}
[{{ $section }}]
{{- range $key, $value := $keys }}
{{- if kindIs "map" $value }}
{{- range $name, $entry := $value }}
{{ $key }}.{{ toJson $name }} = {{ toJson $entry }}
{{- end }}
{{- else }}
{{ $key }} = {{ toJson $value }}
{{- end }}
{{- end }}
{{ end }}
{{- end }}

{{- /* Labels by which objects find pods, of (root, component). They are all that a pod has, because it restarts when one of its
labels changes. */ -}}
{{- define "mutation-quota.selector" -}}
app.kubernetes.io/name: mutation-quota
app.kubernetes.io/instance: {{ .root.Release.Name }}
{{- with .component }}
app.kubernetes.io/component: {{ . }}
{{- end }}
{{- end }}

{{- /* The metadata of an object, of (root, component). */ -}}
{{- define "mutation-quota.metadata" -}}
name: {{ .root.Release.Name }}{{ with .component }}-{{ . }}{{ end }}
namespace: {{ .root.Release.Namespace }}
labels:
  {{- include "mutation-quota.selector" . | nindent 2 }}
  app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
  app.kubernetes.io/managed-by: {{ .root.Release.Service }}
  helm.sh/chart: {{ .root.Chart.Name }}-{{ .root.Chart.Version }}
{{- end }}

{{- /* The ports of Kafka in the settings, as a JSON list of texts. */ -}}
{{- define "mutation-quota.kafkaPorts" -}}
{{- $settings := .Values.settings -}}
{{- $servers := list $settings.kafka.bootstrap_servers ($settings.kafka.target_servers | default "") | join "," -}}
{{- $ports := list -}}
{{- range $server := concat (splitList "," $servers) (dig "listeners" list ($settings.gateway | default dict)) -}}
{{- with regexFind "[0-9]+$" (trim $server) }}{{ $ports = append $ports . }}{{ end -}}
{{- end -}}
{{- $ports | uniq | sortAlpha | toJson -}}
{{- end }}

{{- /* A Deployment, of (root, name, service, values, component, args, env, volumes). */ -}}
{{- define "mutation-quota.deployment" -}}
{{- $settings := include "mutation-quota.settings" . -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  {{- include "mutation-quota.metadata" . | nindent 2 }}
spec:
  replicas: {{ .values.replicas | default 1 }}
  strategy:
    type: {{ if .service.single }}Recreate{{ else }}RollingUpdate{{ end }}
    {{- if .service.standby }}
    rollingUpdate: {maxSurge: 0, maxUnavailable: 1} # the next one is replaced when the one before is ready to take over
    {{- end }}
  selector:
    matchLabels:
      {{- include "mutation-quota.selector" . | nindent 6 }}
  template:
    metadata:
      labels:
        {{- include "mutation-quota.selector" . | nindent 8 }}
        {{- with .values.podLabels }}{{ toYaml . | nindent 8 }}{{ end }}
      annotations:
        checksum/settings: {{ sha256sum $settings }}
        {{- with .values.podAnnotations }}{{ toYaml . | nindent 8 }}{{ end }}
    spec:
      serviceAccountName: {{ .root.Release.Name }}-{{ .name }}
      automountServiceAccountToken: false
      enableServiceLinks: false
      {{- with .root.Values.image.pullSecrets }}
      imagePullSecrets:
        {{- range . }}
        - name: {{ . }}
        {{- end }}
      {{- end }}
      terminationGracePeriodSeconds: {{ .service.grace }}
      {{- with .values.podSecurityContext }}
      securityContext:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- range $field := list "priorityClassName" "nodeSelector" "tolerations" "affinity" }}
      {{- with get $.values $field }}
      {{ $field }}:{{ if kindIs "string" . }} {{ . }}{{ else }}{{ toYaml . | nindent 8 }}{{ end }}
      {{- end }}
      {{- end }}
      {{- if .values.replicas }}
      topologySpreadConstraints:
        - maxSkew: 1
          topologyKey: kubernetes.io/hostname
          whenUnsatisfiable: ScheduleAnyway
          labelSelector:
            matchLabels:
              {{- include "mutation-quota.selector" . | nindent 14 }}
      {{- end }}
      containers:
        - name: {{ .name }}
          image: {{ .root.Values.image.repository }}:{{ .root.Values.image.tag | default .root.Chart.AppVersion }}
          imagePullPolicy: {{ .root.Values.image.pullPolicy }}
          args: {{ concat .args (list "--settings" "/etc/mutation-quota/mutation-quota.toml") (.values.args | default list) | toJson }}
          {{- with concat .env (.values.env | default list) }}
          env:
            {{- toYaml . | nindent 12 }}
          {{- end }}
          {{- with and .service.storage .root.Values.storage.credentialsSecret }}
          envFrom:
            - secretRef:
                name: {{ . }}
          {{- end }}
          ports:
            - name: http
              containerPort: {{ .service.port | default .root.Values.settings.metrics.port }}
              protocol: TCP
            {{- range .service.listens }}
            - name: kafka-{{ . }}
              containerPort: {{ . }}
              protocol: TCP
            {{- end }}
          startupProbe: # until the port is open
            httpGet: {path: /healthz, port: http}
            periodSeconds: 5
            failureThreshold: 60
          livenessProbe:
            httpGet: {path: /healthz, port: http}
            periodSeconds: {{ if .service.quickProbes }}10{{ else }}30{{ end }}
            timeoutSeconds: 5
          readinessProbe:
            httpGet: {path: /readyz, port: http}
            periodSeconds: {{ if .service.quickProbes }}5{{ else }}10{{ end }}
            timeoutSeconds: 5
          {{- with .service.preStop }}
          lifecycle:
            preStop:
              exec:
                command: [sleep, "{{ . }}"]
          {{- end }}
          securityContext:
            allowPrivilegeEscalation: false
            readOnlyRootFilesystem: true
            capabilities:
              drop: [ALL]
          resources:
            {{- toYaml .values.resources | nindent 12 }}
          volumeMounts:
            {{- range .volumes }}
            - name: {{ .name }}
              mountPath: {{ .path }}
              {{- if not .writable }}
              readOnly: true
              {{- end }}
            {{- end }}
      volumes:
        {{- range .volumes }}
        - name: {{ .name }}
          {{- toYaml .volume | nindent 10 }}
        {{- end }}
{{- end }}
