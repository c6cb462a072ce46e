# Defines the cache variable NAME of a part that is built if its libraries are found. DESCRIPTION says what AUTO looks for.
function(ddprun_optional_part name description)
  set(${name} AUTO CACHE STRING "${description}")
  set_property(CACHE ${name} PROPERTY STRINGS AUTO ON OFF)
  if(NOT "${${name}}" MATCHES "^(AUTO|ON|OFF)$")
    message(FATAL_ERROR "${name}=${${name}}: must be AUTO, ON or OFF")
  endif()
endfunction()
