package optout

// language is the words of one language or script. Words are written as people
// would; Read compares them folded.
type language struct {
	Name   string
	Source string // where the words were read; empty where they are the plain words for it, without a list of anybody's
	Stop   []string
	Start  []string
	Help   []string
}

// languages is every word there is. What stands in two languages means the same in
// both, which a test holds.
var languages = []language{
	{
		Name:   "English",
		Source: "Twilio, Support for opt-out keywords (help.twilio.com, article 223134027); AWS End User Messaging SMS, Required opt-out list keywords (docs.aws.amazon.com, opt-out-list-keywords); 47 CFR 64.1200(a)(10), for revoke and opt out",
		Stop:   []string{"STOP", "STOP ALL", "STOPALL", "UNSUBSCRIBE", "CANCEL", "END", "QUIT", "REVOKE", "OPT OUT", "OPT-OUT", "OPTOUT", "REMOVE"},
		Start:  []string{"START", "UNSTOP", "SUBSCRIBE", "RESUBSCRIBE"},
		Help:   []string{"HELP", "INFO"},
	},
	{
		// Rules for marketing messages ask for a way to unsubscribe by answering with a
		// letter, and which letter the operator's templates say: R, T or TD.
		Name:   "Chinese",
		Source: "AWS, as above, for TD; Huawei Cloud, Message & SMS, FAQ 0110 (support.huaweicloud.com/msgsms_faq/sms_faq_0110.html), for R",
		Stop: []string{
			"T", "TD", "R", "退", "退订", "退订短信", "取消", "取消订阅", "拒收", "拒收短信", "停止", "停止发送", "不要再发", "不要再发了", "别再发了", "别发了",
			"退訂", "取消訂閱", "停止發送", "拒絕接收", "不要再發", "不要再發了",
		},
		Start: []string{"开始", "恢复", "恢复订阅", "重新订阅", "恢复接收", "開始", "恢復", "恢復訂閱", "重新訂閱"},
		Help:  []string{"帮助", "幫助"},
	},
	{
		Name:   "French",
		Source: "Twilio, Proxy, Opt-out keywords (twilio.com/docs/proxy/opt-out-keywords), for ARRET, ARRETE, ARRETT",
		Stop:   []string{"ARRÊT", "ARRÊTE", "ARRÊTER", "ARRÊTEZ", "ARRETT", "DÉSABONNER", "DÉSABONNEMENT", "DÉSINSCRIRE", "DÉSINSCRIPTION", "STOP SMS"},
		Start:  []string{"REPRENDRE", "DÉBUT", "RÉABONNER", "RÉABONNEMENT"},
		Help:   []string{"AIDE"},
	},
	{
		Name:  "Spanish",
		Stop:  []string{"ALTO", "PARAR", "PARE", "DETENER", "BAJA", "DAR DE BAJA", "DARME DE BAJA", "CANCELAR", "SALIR"},
		Start: []string{"ALTA", "INICIAR", "COMENZAR", "REANUDAR", "EMPEZAR"},
		Help:  []string{"AYUDA"},
	},
	{
		Name:  "Portuguese",
		Stop:  []string{"PARAR", "PARE", "SAIR", "CANCELAR", "DESCADASTRAR", "REMOVER"},
		Start: []string{"INICIAR", "COMEÇAR", "VOLTAR", "RECOMEÇAR"},
		Help:  []string{"AJUDA"},
	},
	{
		Name:  "German",
		Stop:  []string{"STOPP", "STOPPEN", "ABMELDEN", "ABBESTELLEN", "ABBRECHEN", "ENDE", "BEENDEN", "AUSTRAGEN"},
		Start: []string{"ANMELDEN", "STARTEN"},
		Help:  []string{"HILFE"},
	},
	{
		Name:  "Italian",
		Stop:  []string{"FERMA", "FERMARE", "ANNULLA", "CANCELLA", "CANCELLAMI", "DISISCRIVI", "DISISCRIVIMI", "BASTA"},
		Start: []string{"INIZIA", "AVVIA", "RIPRENDI", "ISCRIVI", "ISCRIVIMI"},
		Help:  []string{"AIUTO"},
	},
	{
		Name:  "Dutch",
		Stop:  []string{"STOPPEN", "AFMELDEN", "UITSCHRIJVEN", "OPZEGGEN", "BEËINDIGEN"},
		Start: []string{"STARTEN", "AANMELDEN", "INSCHRIJVEN"},
		Help:  []string{"HULP"},
	},
	{
		Name:  "Swedish, Danish, Norwegian",
		Stop:  []string{"STOPP", "AVSLUTA", "AVREGISTRERA", "AFMELD", "AVMELD"},
		Start: []string{"STARTA", "TILMELD"},
		Help:  []string{"HJÄLP", "HJÆLP", "HJELP"},
	},
	{
		Name:  "Polish",
		Stop:  []string{"ZATRZYMAJ", "WYPISZ", "REZYGNUJĘ", "REZYGNACJA", "ANULUJ"},
		Start: []string{"WZNÓW"},
		Help:  []string{"POMOC"},
	},
	{
		Name:  "Turkish",
		Stop:  []string{"DUR", "DURDUR", "RET", "İPTAL", "IPTAL"},
		Start: []string{"BAŞLA", "BAŞLAT"},
		Help:  []string{"YARDIM"},
	},
	{
		Name:  "Indonesian and Malay",
		Stop:  []string{"BERHENTI", "BATAL", "HENTI"},
		Start: []string{"MULAI", "MULA"},
		Help:  []string{"BANTUAN"},
	},
	{
		Name:  "Vietnamese",
		Stop:  []string{"DỪNG", "DỪNG LẠI", "HỦY", "HUỶ", "TỪ CHỐI"},
		Start: []string{"BẮT ĐẦU"},
		Help:  []string{"TRỢ GIÚP"},
	},
	{
		Name:  "Thai",
		Stop:  []string{"หยุด", "ยกเลิก"},
		Start: []string{"เริ่ม"},
		Help:  []string{"ช่วยเหลือ"},
	},
	{
		Name:  "Japanese",
		Stop:  []string{"停止", "配信停止", "ストップ", "解除", "解約", "退会", "中止", "キャンセル"},
		Start: []string{"開始", "再開", "配信再開", "スタート"},
		Help:  []string{"ヘルプ", "助けて"},
	},
	{
		Name:  "Korean",
		Stop:  []string{"수신거부", "수신 거부", "거부", "중지", "중단", "정지", "취소", "해지"},
		Start: []string{"시작", "재개", "수신동의", "수신 동의"},
		Help:  []string{"도움말", "도움"},
	},
	{
		Name:  "Russian",
		Stop:  []string{"СТОП", "ОТПИСАТЬСЯ", "ОТПИСКА", "ОТКАЗ", "ОТМЕНА", "ОТМЕНИТЬ", "ПРЕКРАТИТЬ"},
		Start: []string{"СТАРТ", "НАЧАТЬ", "ПОДПИСАТЬСЯ", "ВОЗОБНОВИТЬ"},
		Help:  []string{"ПОМОЩЬ", "СПРАВКА"},
	},
	{
		Name:  "Ukrainian",
		Stop:  []string{"ВІДПИСАТИСЯ", "ВІДМОВА", "СКАСУВАТИ"},
		Start: []string{"ПОЧАТИ", "ПІДПИСАТИСЯ"},
		Help:  []string{"ДОПОМОГА"},
	},
	{
		Name:  "Arabic",
		Stop:  []string{"إيقاف", "ايقاف", "توقف", "أوقف", "إلغاء", "الغاء", "إلغاء الاشتراك", "الغاء الاشتراك", "قف"},
		Start: []string{"ابدأ", "بدء", "اشتراك", "استئناف"},
		Help:  []string{"مساعدة"},
	},
	{
		Name:  "Hebrew",
		Stop:  []string{"הסר", "הסרה", "עצור", "להסרה"},
		Start: []string{"התחל"},
		Help:  []string{"עזרה"},
	},
	{
		Name:  "Hindi",
		Stop:  []string{"रोकें", "रोको", "बंद", "बंद करें", "बंद करो", "रुको", "रुकें"},
		Start: []string{"शुरू", "शुरू करें", "चालू"},
		Help:  []string{"मदद", "सहायता"},
	},
	{
		Name:  "Bengali",
		Stop:  []string{"বন্ধ", "বন্ধ করুন", "থামুন"},
		Start: []string{"শুরু", "চালু"},
		Help:  []string{"সাহায্য"},
	},
}

// words are the folded words of every language.
var words = func() map[string]Word {
	all := make(map[string]Word)
	for _, l := range languages {
		for word, list := range map[Word][]string{Stop: l.Stop, Start: l.Start, Help: l.Help} {
			for _, text := range list {
				if key := fold(text); key != "" {
					all[key] = word
				}
			}
		}
	}
	return all
}()
