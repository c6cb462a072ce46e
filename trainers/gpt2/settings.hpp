// Settings that must be equal on all ranks of a run and in all its attempts.
#pragma once

#include "trainers/gpt2/options.hpp"
#include "trainers/gpt2/token_file.hpp"
#include <ddprun/process_group.hpp>
#include <ddprun/worker_env.hpp>

#include <nlohmann/json_fwd.hpp>

#include <span>
#include <string>

namespace trainer::gpt2 {

/// JSON object with names and values of settings. Options are named without dashes.
using Settings = nlohmann::json;

/// Returns all settings that affect the parameters; they must be equal in a resumed run.
Settings settings_of(const Options& options, const ddprun::WorkerEnv& env, const TokenFile& data);

/// Returns all settings that must be equal on all ranks of a run: those above, and those that
/// determine the collectives. `test_data` may be null.
Settings common_settings(const Options& options, const ddprun::WorkerEnv& env,
                         const TokenFile& data, const TokenFile* test_data);

/// Returns the name for messages, such as "--lr" or "the number of workers".
std::string display_name(const std::string& setting);

std::string text_of(const Settings& value);

/// Returns "--seed is 0 on ranks 0, 2 and 7 on rank 1" for each setting that differs between ranks;
/// empty if all are equal.
std::string describe_differences(std::span<const Settings> ranks);

/// Throws the same Error{Errc::usage} on all ranks, with describe_differences(), if their settings
/// differ. A collective, which blocks.
void require_same_settings(ddprun::ProcessGroup& group, const Settings& own);

}  // namespace trainer::gpt2
