// Sections of checkpoints as LibTorch archives: trees of named values.
#pragma once

#include <ddprun/checkpoint.hpp>
#include <ddprun/error.hpp>

#include <torch/serialize/archive.h>

#include <exception>
#include <functional>
#include <new>
#include <string>
#include <vector>

namespace ddprun::torch {

/// Throws Error{Errc::usage}.
[[noreturn]] void refuse_section(const std::string& section, const std::string& reason);

/// Returns the result of `call`. Converts exceptions of LibTorch and the standard library to
/// Error{Errc::usage} with the section, `reason` and the message.
template <typename Call>
auto convert_errors(const std::string& section, const std::string& reason, const Call& call) {
  try {
    return call();
  } catch (const Error&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const c10::Error& error) {
    refuse_section(section, reason + ": " + error.what_without_backtrace());
  } catch (const std::exception& error) {
    refuse_section(section, reason + ": " + error.what());
  }
}

/// Adds a section with the archive that `write` fills.
void put_archive(Checkpoint& checkpoint, const std::string& section,
                 const std::function<void(::torch::serialize::OutputArchive&)>& write);

/// Throws Error{Errc::usage} if the section is missing.
::torch::serialize::InputArchive get_archive(const Checkpoint& checkpoint,
                                             const std::string& section);

/// Reason if LibTorch cannot read the archive.
inline constexpr const char* kSomethingElse = "is of something else";

struct NamedValue {
  std::string name;  ///< "encoder.0.weight"
  c10::IValue value;
};

/// Returns all values, including those of nested archives, in the order of writing.
std::vector<NamedValue> values_of(::torch::serialize::InputArchive& archive);

}  // namespace ddprun::torch
