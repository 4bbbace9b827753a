# Bash completion for hod: sub-commands, options, config files and the keys that can be overridden.

_hod()
{
    local commands='train plan bench eval inspect'
    local options='--help --json --resume --updates --output --view'
    local keys='model.name= data.name= data.path= data.workers= effective_batch= memory_budget=
        micro_batch= recompute= precision= last_window= compile.enabled= compile.mode=
        compile.fullgraph= optimizer.name= optimizer.lr= optimizer.weight_decay= schedule.name=
        schedule.warmup= clip_norm= ema= epochs= seed= output= init='
    local word=${COMP_WORDS[COMP_CWORD]} command=${COMP_WORDS[1]}

    COMPREPLY=()
    if [ "$COMP_CWORD" = 1 ]; then
        COMPREPLY=($(compgen -W "$commands --help --version" -- "$word"))
        return
    fi
    case $word in
    -*) COMPREPLY=($(compgen -W "$options" -- "$word")) ;;
    *=*) ;;
    *)
        compopt -o filenames
        COMPREPLY=($(compgen -f -- "$word"))
        case $command in
        inspect) return ;;
        esac
        # The config comes first, overrides after it.
        if [ "$COMP_CWORD" -gt 2 ]; then
            compopt +o filenames -o nospace
            COMPREPLY+=($(compgen -W "$keys" -- "$word"))
        fi
        ;;
    esac
}

complete -F _hod hod
