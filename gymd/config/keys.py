"""The top-level keys that are settings, not servers."""

__all__ = ["KNOWN_KEYS", "POLICY_KEYS", "SETTINGS_KEY"]

SETTINGS_KEY = "gymd"
"""The block with the daemon's own settings."""

POLICY_KEYS = frozenset({"policy_base_url", "policy_api_key", "policy_model_name", "policy_model"})
"""What the configurations of models refer to."""

_CREDENTIALS = {
    "google_api_key",
    "google_cx",
    "hf_endpoint",
    "hf_token",
    "hf_organization",
    "hf_collection_name",
    "hf_collection_slug",
    "hf_dataset_prefix",
    "mlflow_tracking_uri",
    "mlflow_tracking_token",
    "mlflow_experiment_name",
    "mlflow_run_name",
    "wandb_api_key",
    "wandb_project",
    "wandb_entity",
    "wandb_name",
}

# Accepted so that NeMo Gym's files load unchanged; most of them have no meaning for gymd.
_RUN = {
    "allow_openai_version_skew",
    "allow_unsupported_pairing",
    "cache_dir",
    "component_name",
    "config_paths",
    "default_host",
    "disallowed_ports",
    "dry_run",
    "entrypoint",
    "error_on_almost_servers",
    "global_aiohttp_client_request_debug",
    "global_aiohttp_connector_limit",
    "global_aiohttp_connector_limit_per_host",
    "head_server",
    "head_server_deps",
    "json",
    "model_call_capture_dir",
    "model_endpoint_readiness_timeout_seconds",
    "nemo_gym_log_dir",
    "observability_enabled",
    "pip_install_verbose",
    "port_range_high",
    "port_range_low",
    "profiling_enabled",
    "profiling_results_dirpath",
    "python_version",
    "query",
    "ray_head_node_address",
    "results_dir",
    "skip_venv_if_present",
    "skip_verification",
    "skip_verification_reward",
    "telemetry",
    "token_id_capture",
    "use_absolute_ip",
    "uv_cache_dir",
    "uv_pip_set_python",
    "uv_venv_dir",
    "uvicorn_logging_show_200_ok",
    "uvicorn_timeout_worker_healthcheck",
    "verbose",
}

# Options of the commands, which NeMo Gym mixes into the same namespace (`+limit=5`).
_COMMANDS = {
    "agent_map",
    "agent_name",
    "artifact_fpath",
    "data_source",
    "dataset_name",
    "disable_aggregation",
    "fan_out",
    "input_glob",
    "input_jsonl_fpath",
    "jsonl_fpath",
    "limit",
    "mode",
    "num_repeats",
    "num_repeats_add_seed",
    "num_samples_in_parallel",
    "output_dirpath",
    "output_fpath",
    "output_jsonl_fpath",
    "overwrite_metrics_conflicts",
    "prompt_config",
    "responses_create_params",
    "resume_from_cache",
    "revision",
    "should_download",
    "should_validate_data",
    "skills",
    "split",
    "upload_rollouts",
    "version",
}

KNOWN_KEYS = frozenset(POLICY_KEYS | _CREDENTIALS | _RUN | _COMMANDS | {SETTINGS_KEY})
