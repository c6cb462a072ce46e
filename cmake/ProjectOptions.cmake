# What every target of the project compiles with. Flags that are a choice (sanitizers, optimisation)
# belong to the presets.
add_library(ddprun_options INTERFACE)
target_compile_features(ddprun_options INTERFACE cxx_std_20)
target_include_directories(ddprun_options INTERFACE ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR}/generated)
set(warnings
    -Wall
    -Wextra
    -Wpedantic
    -Wshadow
    -Wconversion
    -Wno-sign-conversion
    -Wno-missing-field-initializers
    -Wnon-virtual-dtor
    -Woverloaded-virtual
    -Wold-style-cast
    -Werror=return-type
    -Werror=switch)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # Of fences, which g++'s thread sanitizer does not follow.
  list(APPEND warnings -Wno-tsan)
endif()
if(CMAKE_UNITY_BUILD AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # g++ takes the sources of a unity build for headers, whose types must not be local to a source.
  list(APPEND warnings -Wno-subobject-linkage)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  # Of what libstdc++ before version 13 calls in its own std::stable_sort. g++ reports the project's own uses.
  list(APPEND warnings -Wno-deprecated-declarations)
  if(CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 22)
    # doctest's macros use __COUNTER__.
    list(APPEND warnings -Wno-c2y-extensions)
  endif()
endif()
target_compile_options(ddprun_options INTERFACE "$<$<COMPILE_LANGUAGE:C,CXX>:${warnings}>")

configure_file(${PROJECT_SOURCE_DIR}/cmake/version.hpp.in ${PROJECT_BINARY_DIR}/generated/ddprun_version.hpp @ONLY)

# Asio in one shape everywhere: std::coroutine awaitables, no deprecated names, its headers as system headers.
# One target so that the installed libraries can use it without exporting it.
add_library(ddprun_asio INTERFACE)
target_link_libraries(ddprun_asio INTERFACE Boost::headers Threads::Threads)
target_compile_definitions(ddprun_asio INTERFACE BOOST_ASIO_NO_DEPRECATED BOOST_ASIO_DISABLE_BOOST_COROUTINE)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # g++ 12 does not see that Asio frees the frame of a coroutine by the counterpart of what allocated it.
  target_compile_options(ddprun_asio INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-mismatched-new-delete>)
endif()
